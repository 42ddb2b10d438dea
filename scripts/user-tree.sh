# SPDX-License-Identifier: MIT
#
# What the scripts share that work inside a tree of scripts/user-root; each one
# reads it after lib.sh. Sets `tree`, a copy of that of kernel $line, which goes at
# the end, and `log`.

: "${build:?lib.sh comes first}" "${line:?}"
user=$build/user/$line
[ -e "$user/recipe" ] || die "there is no build/user/$line: scripts/user-root $line makes it"
ls "$build"/deb/isolio-dkms_*.deb >/dev/null || die "no packages: make deb makes them"

root=$(mktemp -d)
trap 'as_root umount -q "$root/tree/proc" "$root/tree/sys" "$root/tree/boot" 2>/dev/null || true; as_root rm -rf "$root"' EXIT
(cd "$root" && as_root cpio -idm --quiet <"$user/tree.cpio")
tree=$root/tree
as_root mount -t proc proc "$tree/proc"
for node in null:3 zero:5 random:8 urandom:9; do
	as_root mknod -m 666 "$tree/dev/${node%:*}" c 1 "${node#*:}"
done
# A kernel that lies beside the tree, to be booted from there, is where it was.
as_root cp "$user/vmlinuz" "$tree/boot/vmlinuz-$(cat "$user/release")"
as_root ln -s /proc/self/fd "$tree/dev/fd" # dkms is a script of bash's
as_root mkdir -p "$tree/tmp/packages"
as_root cp "$build"/deb/isolio*.deb "$tree/tmp/packages/"

# inside CMD...: run it in the tree.
inside() { as_root env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C HOME=/root DEBIAN_FRONTEND=noninteractive chroot "$tree" "$@"; }

# quietly CMD...: inside, with the output to the log; shown when it fails.
log=$user/${0##*/}.log
quietly() {
	inside "$@" >"$log" 2>&1 || {
		as_root sh -c 'cat "$1"/var/lib/dkms/isolio/*/build/make.log' sh "$tree" >>"$log" 2>/dev/null || true
		tail -40 "$log" >&2
		die "$* failed; the whole output is in $log"
	}
}
