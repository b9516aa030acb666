package bench

import (
	"fmt"
	"syscall"
)

// The numbers of file systems are those of linux/magic.h and of statfs(2).
const (
	tmpfsMagic = 0x01021994
	ramfsMagic = 0x858458f6
)

// storageOf names the file system that a folder is on, and says whether that is memory.
func storageOf(dir string) (name string, memory bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return "", false
	}
	return fileSystem(uint32(s.Type)) // Some processors' kernels have a signed or longer type.
}

func fileSystem(magic uint32) (name string, memory bool) {
	switch magic {
	case tmpfsMagic:
		return "tmpfs", true
	case ramfsMagic:
		return "ramfs", true
	case 0xef53:
		return "ext4", false // Or ext2 or ext3, which share its number.
	case 0x58465342:
		return "xfs", false
	case 0x9123683e:
		return "btrfs", false
	case 0x2fc12fc1:
		return "zfs", false
	case 0xf2f52010:
		return "f2fs", false
	case 0x794c7630:
		return "overlayfs", false
	}
	return fmt.Sprintf("file system 0x%x", magic), false
}

func kernelOf() string {
	var u syscall.Utsname
	if err := syscall.Uname(&u); err != nil {
		return ""
	}
	var text []byte
	for _, c := range u.Release {
		if c == 0 {
			break
		}
		text = append(text, byte(c))
	}
	return "Linux " + string(text)
}
