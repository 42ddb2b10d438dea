#!/bin/sh
# SPDX-License-Identifier: MIT
#
# usage: inside.sh TREE DIR
# Runs in mount and PID namespaces of its own, which end with it: containerd in the
# Debian tree TREE, with the test's directory DIR as /t. containerd starts again
# whenever it ends; the file /t/kill has it killed.

set -e
tree=$1 dir=$2
mount --make-rprivate /
mount --bind "$tree" "$tree"
mount --rbind /sys "$tree/sys"
mount --rbind /dev "$tree/dev"
mount -t proc proc "$tree/proc"
for tmp in run tmp var/lib/containerd; do mount -t tmpfs tmpfs "$tree/$tmp"; done
mount --bind "$dir" "$tree/t"
exec chroot "$tree" /bin/sh -c '
	export PATH=/usr/sbin:/usr/bin:/sbin:/bin
	while :; do
		containerd --config /t/config.toml --log-level info >>/t/containerd.log 2>&1 &
		containerd=$!
		until ctr --address /t/containerd.sock version >/dev/null 2>&1; do
			kill -0 $containerd || break
			sleep 0.1
		done
		[ -e /t/imported ] || { ctr --address /t/containerd.sock --namespace k8s.io image import --snapshotter native /t/image.tar && touch /t/imported; } >>/t/containerd.log 2>&1
		touch /t/ready
		while kill -0 $containerd 2>/dev/null; do
			if [ -e /t/kill ]; then
				rm -f /t/kill /t/ready
				kill -9 $containerd
				wait $containerd || true
			fi
			sleep 0.1
		done
	done
'
