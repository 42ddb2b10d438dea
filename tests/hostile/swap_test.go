// SPDX-License-Identifier: MIT

//go:build vm

package hostile

import (
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hogEnv is set in a process that fills memory, to how many MiB.
const hogEnv = "HOSTILE_HOG"

// startSwap formats the disk as mkswap does, and has the kernel swap to it.
func startSwap(d *disk) error {
	sectors, err := strconv.Atoi(get(d.sys("size")))
	if err != nil {
		return err
	}
	page := make([]byte, os.Getpagesize())
	binary.LittleEndian.PutUint32(page[1024:], 1)                                      // version
	binary.LittleEndian.PutUint32(page[1028:], uint32(sectors*512/os.Getpagesize())-1) // last page
	copy(page[len(page)-10:], "SWAPSPACE2")
	f, err := os.OpenFile(d.path(), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err := f.Write(page); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return swap(unix.SYS_SWAPON, d)
}

func swap(call uintptr, d *disk) error {
	path, err := unix.BytePtrFromString(d.path())
	if err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(call, uintptr(unsafe.Pointer(path)), 0, 0); errno != 0 {
		return fmt.Errorf("%s: swap: %w", d.name, errno)
	}
	return nil
}

// hogMain fills memory with numbers, and checks again and again that they are
// still there: the memory limit of its cgroup sends most of them to swap.
func hogMain(text string) int {
	size, err := strconv.Atoi(text)
	if err != nil {
		fmt.Println("hog:", err)
		return exitFailed
	}
	memory, err := unix.Mmap(-1, 0, size<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		fmt.Println("hog: mmap:", err)
		return exitFailed
	}
	words := unsafe.Slice((*uint64)(unsafe.Pointer(&memory[0])), len(memory)/8)
	const step = 512 // one word of a page
	for round := uint64(0); ; round++ {
		for i := 0; i < len(words); i += step {
			if round > 0 && words[i] != uint64(i)^(round-1)<<40 {
				fmt.Printf("WRONG swap: word %d is %#x in round %d\n", i, words[i], round)
				return exitWrong
			}
			words[i] = uint64(i) ^ round<<40
		}
		time.Sleep(50 * time.Millisecond)
	}
}
