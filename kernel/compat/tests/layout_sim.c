// SPDX-License-Identifier: GPL-2.0-only
/*
 * layout.h and real kernels, where they are there: the layout record of each
 * module in build/modules/LINE and the BTF in build/kernel/LINE. Without them
 * nothing is compared, and the cases say so.
 */
#define _GNU_SOURCE /* memmem */
#include <glob.h>
#include <kunit/test.h>
#include <linux/slab.h>

/* As in isolio_private.h. */
struct isolio_layout {
	char type[48];
	char member[48];
	u32 offset;
	u32 size;
};

#define LAYOUT_INIT
#include "../layout.h"

struct bytes {
	u8 *data;
	size_t len;
};

static struct bytes read_file(const char *name)
{
	struct bytes bytes = { };
	FILE *file = fopen(name, "rb");

	if (!file)
		return bytes;
	fseek(file, 0, SEEK_END);
	bytes.len = ftell(file);
	rewind(file);
	bytes.data = malloc(bytes.len + 1);
	if (fread(bytes.data, 1, bytes.len, file) != bytes.len)
		bytes.len = 0;
	fclose(file);
	return bytes;
}

/* A copy of a module's record, which its title finds, and its length. */
static struct isolio_layout *find_record(const struct bytes *module, u32 *nr)
{
	static const char title[sizeof(((struct isolio_layout *)0)->type)] = LAYOUT_TITLE;
	struct isolio_layout *copy, *record;

	record = memmem(module->data, module->len, title, sizeof(title));
	if (!record)
		return NULL;
	memcpy(nr, &record->offset, sizeof(*nr));
	if ((u8 *)record + *nr * sizeof(*record) > module->data + module->len)
		return NULL;
	copy = calloc(*nr, sizeof(*copy));
	memcpy(copy, record, *nr * sizeof(*copy));
	return copy;
}

static struct layout_check check;

static int compare(const struct bytes *btf, const struct isolio_layout *record, u32 nr)
{
	u32 *places;
	int ret;

	memset(&check, 0, sizeof(check));
	ret = layout_open(&check, btf->data, btf->len);
	if (ret)
		return ret;
	ret = layout_group(&check, record, nr);
	if (ret)
		return ret;
	places = malloc(layout_max_types(&check) * sizeof(*places));
	ret = layout_index(&check, places);
	if (!ret)
		ret = layout_compare(&check);
	free(places);
	return ret;
}

/* As compare(), with types that were found before, so that many records are quick. */
static int compare_again(const struct isolio_layout *record, u32 nr)
{
	int ret = layout_group(&check, record, nr);

	return ret ? ret : layout_compare(&check);
}

static void check_module(struct kunit *test, const char *line, const char *name)
{
	struct bytes module = read_file(name), btf;
	struct isolio_layout *record;
	u32 nr, i, *places;
	char path[128];

	snprintf(path, sizeof(path), "build/kernel/%s/vmlinux.btf", line);
	btf = read_file(path);
	KUNIT_ASSERT_TRUE(test, btf.len > 0);
	record = find_record(&module, &nr);
	KUNIT_ASSERT_NOT_NULL(test, record);
	KUNIT_ASSERT_TRUE(test, nr > 100);

	if (compare(&btf, record, nr))
		KUNIT_FAIL(test, "%s: %s", name, check.why);

	/* Each number of it alone; every seventh, as a kernel has 130,000 types. */
	places = malloc(layout_max_types(&check) * sizeof(*places));
	KUNIT_EXPECT_EQ(test, layout_index(&check, places), 0);
	for (i = 1; i < nr; i += 7) {
		record[i].size ^= 1;
		if (compare_again(record, nr) != -ENOEXEC)
			KUNIT_FAIL(test, "%s: another size of %s.%s is taken", name,
				   record[i].type, record[i].member);
		record[i].size ^= 1;
		if (!record[i].member[0])
			continue;
		record[i].offset ^= 1;
		if (compare_again(record, nr) != -ENOEXEC)
			KUNIT_FAIL(test, "%s: another offset of %s.%s is taken", name,
				   record[i].type, record[i].member);
		record[i].offset ^= 1;
	}
	KUNIT_EXPECT_EQ(test, compare_again(record, nr), 0);

	/* Half of the BTF, and BTF with a damaged byte here and there. */
	for (i = 0; i < 64; i++)
		btf.data[(i * 7919 * 4099ULL) % btf.len] ^= 1 << i % 8;
	compare(&btf, record, nr);
	btf.len /= 2;
	KUNIT_EXPECT_EQ(test, compare(&btf, record, nr), -EINVAL);

	free(places);
	free(record);
	free(btf.data);
	free(module.data);
}

static const char *const lines[] = { "6.1", "6.12", "7.2" };

static void line_desc(const char *const *line, char *desc)
{
	strscpy(desc, *line, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(line, lines, line_desc);

/* A module fits its own kernel, and with any number changed does not. */
static void modules_fit_their_kernel(struct kunit *test)
{
	const char *line = *(const char *const *)test->param_value;
	char pattern[128];
	glob_t found;
	size_t i;

	snprintf(pattern, sizeof(pattern), "build/modules/%s/*.ko", line);
	if (glob(pattern, 0, NULL, &found)) {
		printf("# %s: no modules, nothing was compared\n", pattern);
		return;
	}
	for (i = 0; i < found.gl_pathc; i++)
		check_module(test, line, found.gl_pathv[i]);
	globfree(&found);
}

/* And does not fit the other kernels. */
static void modules_fit_no_other(struct kunit *test)
{
	const char *line = *(const char *const *)test->param_value;
	struct isolio_layout *record;
	struct bytes module, btf;
	char path[128];
	u32 i, nr;

	snprintf(path, sizeof(path), "build/modules/%s/rsd-iosched.ko", line);
	module = read_file(path);
	for (i = 0; module.len && i < ARRAY_SIZE(lines); i++) {
		if (!strcmp(lines[i], line))
			continue;
		snprintf(path, sizeof(path), "build/kernel/%s/vmlinux.btf", lines[i]);
		btf = read_file(path);
		if (!btf.len)
			continue;
		record = find_record(&module, &nr);
		KUNIT_ASSERT_NOT_NULL(test, record);
		KUNIT_EXPECT_EQ(test, compare(&btf, record, nr), -ENOEXEC);
		printf("# of %s, on %s: %s\n", line, lines[i], check.why);
		free(record);
		free(btf.data);
	}
	free(module.data);
}

static struct kunit_case layout_cases[] = {
	KUNIT_CASE_PARAM(modules_fit_their_kernel, line_gen_params),
	KUNIT_CASE_PARAM(modules_fit_no_other, line_gen_params),
	{ }
};

static struct kunit_suite layout_suite = {
	.name = "isolio_layout_kernels",
	.test_cases = layout_cases,
};

kunit_test_suite(layout_suite);
