// SPDX-License-Identifier: GPL-2.0-only
/*
 * A module that was built for another kernel does not start. Every module here
 * includes this in a file of its own and calls isolio_check_fit() first of all
 * in its init, so that it holds for insmod, modprobe, udev and a write to
 * queue/scheduler alike.
 *
 * The kernel's BTF is read from a mount of sysfs that this makes for itself. What
 * the caller of init_module() has at /sys, if anything, does not matter.
 *
 * There is no way around the check: a module is made from the BTF of its kernel,
 * so a kernel without BTF is not the one that it was made for.
 */
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/mount.h>
#include <linux/utsname.h>

#include "compat.h"
#include "layout.h"

ISOLIO_LAYOUT_RECORD();

#define ISOLIO_BTF_MAX	(256U << 20)	/* bytes; kernels have 4 to 10 MiB */

static int __init isolio_read_all(struct file *file, void *data, size_t len)
{
	size_t done = 0;
	loff_t pos = 0;
	ssize_t n;

	while (done < len) {
		n = kernel_read(file, data + done, len - done, &pos);
		if (n <= 0)
			return n ? n : -EIO;
		done += n;
	}
	return 0;
}

/* The kernel's BTF, for kvfree(), or an error. */
static void *__init isolio_read_btf(struct vfsmount *sysfs, size_t *len)
{
	struct file *file;
	loff_t size;
	void *data;
	int ret;

	file = file_open_root_mnt(sysfs, "kernel/btf/vmlinux", O_RDONLY, 0);
	if (IS_ERR(file))
		return ERR_CAST(file);

	size = i_size_read(file_inode(file));
	if (size <= 0 || size > ISOLIO_BTF_MAX) {
		data = ERR_PTR(-EINVAL);
		goto out;
	}
	*len = size;
	data = kvmalloc(size, GFP_KERNEL);
	if (!data) {
		data = ERR_PTR(-ENOMEM);
		goto out;
	}
	ret = isolio_read_all(file, data, size);
	if (ret) {
		kvfree(data);
		data = ERR_PTR(ret);
	}
out:
	fput(file);
	return data;
}

static void *__init isolio_get_btf(size_t *len)
{
	struct file_system_type *type = get_fs_type("sysfs");
	struct vfsmount *sysfs;
	void *data;

	if (!type)
		return ERR_PTR(-ENODEV);
	sysfs = kern_mount(type);
	module_put(type->owner);
	if (IS_ERR(sysfs))
		return ERR_CAST(sysfs);
	data = isolio_read_btf(sysfs, len);
	kern_unmount(sysfs);
	return data;
}

static int __init isolio_compare(struct layout_check *c, const void *btf, size_t len)
{
	const struct isolio_layout *facts = isolio_layout;
	u32 *at;
	int ret;

	/* What counts is what the file says, not what the compiler knew. */
	OPTIMIZER_HIDE_VAR(facts);

	ret = layout_open(c, btf, len);
	if (ret)
		return ret;
	ret = layout_group(c, facts, ARRAY_SIZE(isolio_layout));
	if (ret)
		return ret;

	at = kvmalloc_array(layout_max_types(c), sizeof(*at), GFP_KERNEL);
	if (!at)
		return layout_fail(c, -ENOMEM, "no memory for this kernel's BTF");
	ret = layout_index(c, at);
	if (!ret)
		ret = layout_compare(c);
	kvfree(at);
	return ret;
}

/*
 * 0 if this module was built for the running kernel's structures. Otherwise an
 * error, -ENOEXEC for another kernel, and one line in the kernel log.
 */
int __init isolio_check_fit(void)
{
	struct layout_check *c;
	size_t len;
	void *btf;
	int ret;

	c = kvzalloc(sizeof(*c), GFP_KERNEL);
	if (!c)
		return -ENOMEM;

	btf = isolio_get_btf(&len);
	if (btf == ERR_PTR(-ENOENT)) {
		ret = -ENOEXEC;
		pr_err("%s: refused: this kernel has no BTF (CONFIG_DEBUG_INFO_BTF), so it is not the one that the module was built for\n",
		       KBUILD_MODNAME);
		goto out;
	}
	if (IS_ERR(btf)) {
		ret = PTR_ERR(btf);
		pr_err("%s: refused: this kernel's BTF cannot be read (error %d), so the module cannot be compared with it; load it again\n",
		       KBUILD_MODNAME, ret);
		goto out;
	}

	ret = isolio_compare(c, btf, len);
	if (ret == -ENOEXEC)
		pr_err("%s: refused: built for another kernel: %s; build it for %s with `make install` or `dkms autoinstall`\n",
		       KBUILD_MODNAME, c->why, init_utsname()->release);
	else if (ret)
		pr_err("%s: refused: %s (error %d)\n", KBUILD_MODNAME, c->why, ret);
	kvfree(btf);
out:
	kvfree(c);
	return ret;
}
