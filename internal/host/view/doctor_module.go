// SPDX-License-Identifier: MIT

package view

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"isolio/internal/kernels"
	"isolio/internal/kmod"
)

// moduleName is the module of kyber-fairness; scheduler is what it brings.
const (
	moduleName = "kyber-fairness-iosched"
	scheduler  = "kyber-fairness"
)

func (m *examination) kernel() []Check {
	const name = "kernel"
	if m.release == "" {
		return warning(name, "its version is not known", "mount /proc")
	}
	tested := kernels.EveryChange()
	if slices.ContainsFunc(tested, func(line string) bool { return m.release == line || strings.HasPrefix(m.release, line+".") }) {
		return ok(name, "%s: isolio is tested on this line of kernels", m.release)
	}
	return warning(name, fmt.Sprintf("%s: isolio is tested on other lines of kernels: %s", m.release, strings.Join(tested, ", ")),
		"try it: isolio loads no module that does not fit the kernel")
}

func (m *examination) btf() []Check {
	const name = "BTF"
	if m.exists(kmod.RunningBTF) {
		return ok(name, "%s describes the kernel's private structures", kmod.RunningBTF)
	}
	return fails(name, kmod.RunningBTF+" is missing", "boot a kernel built with CONFIG_DEBUG_INFO_BTF: those of distributions are, but Raspberry Pi OS's")
}

// headers are needed to build the module only.
func (m *examination) headers() []Check {
	const name = "kernel headers"
	build := "/lib/modules/" + m.release + "/build"
	if m.exists(build + "/Makefile") {
		return ok(name, "in %s", build)
	}
	remedy := getHeaders(osRelease(m.sys), m.release)
	if m.foreign() {
		remedy = getKernel(osRelease(m.sys))
		if with, _ := m.installedKernels(); len(with) > 0 {
			remedy = "boot " + with[0] + ", which has the module; " + m.release + " is of no package"
		}
	}
	if m.loaded() || m.module != "" {
		return warning(name, "not in "+build+": the module is there, but cannot be built again", remedy)
	}
	return fails(name, "not in "+build+", and there is no module either", remedy)
}

// loaded reports whether the scheduler is there to choose.
func (m *examination) loaded() bool {
	for _, d := range m.disks {
		if slices.Contains(d.Available, scheduler) {
			return true
		}
	}
	return m.exists("sys/module/" + strings.ReplaceAll(moduleName, "-", "_"))
}

func (m *examination) fits() []Check {
	const name = "module"
	switch {
	case m.module == "" && m.loaded():
		return warning(name, moduleName+" is loaded, but not installed for this kernel", "sudo make install in isolio's source, or install isolio-dkms")
	case m.module == "":
		return fails(name, moduleName+" is not installed for kernel "+m.release, m.builds())
	case !m.exists(kmod.RunningBTF):
		return fails(name, m.module+": cannot be compared with a kernel without BTF", "as for BTF")
	}
	spec, err := kmod.LoadSpec(m.sys.Path(kmod.RunningBTF))
	if err == nil {
		err = kmod.CheckLayout(m.module, spec)
	}
	if err != nil {
		return fails(name, strings.Join(strings.Fields(err.Error()), " "), "sudo make install in isolio's source, or dpkg-reconfigure isolio-dkms")
	}
	return ok(name, "%s fits the running kernel", m.shown(m.module))
}

// replaced tells of a loaded module that is another build than the installed one.
func (m *examination) replaced() []Check {
	const name = "loaded module"
	loaded, there, err := kmod.LoadedVersion(m.sys.Root, moduleName)
	if err != nil || !there || m.module == "" {
		return nil
	}
	installed, err := kmod.FileVersion(m.module)
	if err != nil || loaded.Same(installed) {
		return nil // "module" tells of a damaged file
	}
	finding := fmt.Sprintf("%s is loaded, and %s is installed", loaded, installed)
	if loaded.Name == installed.Name {
		finding = fmt.Sprintf("one build of %s is loaded, and another is installed", loaded)
	}
	return warning(name, finding, "sudo isolio upgrade (--dry-run prints what it does)")
}

// foreign reports whether the running kernel is of no package of dpkg's: another machine's, as in
// a container or where an image is built, or one that its user has compiled.
func (m *examination) foreign() bool {
	if !m.exists("var/lib/dpkg/info") {
		return false
	}
	for _, kind := range []string{"linux-image", "linux-modules", "proxmox-kernel", "pve-kernel"} {
		if files, _ := filepath.Glob(m.sys.Path("var/lib/dpkg/info/" + kind + "*-" + m.release + "*.list")); files != nil { // the pattern is well formed
			return false
		}
	}
	return true
}

// installedKernels are those beside the running one that a boot may choose, with the module and without.
func (m *examination) installedKernels() (with, without []string) {
	dirs, _ := filepath.Glob(m.sys.Path("lib/modules/*/modules.dep")) // the pattern is well formed
	for _, dep := range dirs {
		release := filepath.Base(filepath.Dir(dep))
		if release == m.release || !m.exists("lib/modules/"+release+"/kernel") {
			continue // one that was removed leaves what DKMS built
		}
		if file, err := kmod.Installed(m.sys.Root, release, moduleName); err != nil || file == "" {
			without = append(without, release)
		} else {
			with = append(with, release)
		}
	}
	return with, without
}

// otherKernels tells of those without the module: DKMS builds for each, and tells of a failure where few look.
func (m *examination) otherKernels() []Check {
	const name = "other kernels"
	_, without := m.installedKernels()
	if len(without) == 0 || m.module == "" && !m.foreign() { // "module" tells of one for no kernel
		return nil
	}
	remedy := "sudo dkms autoinstall -k " + without[0] + ": it builds the module, or names the log that says why not; or sudo make install RELEASE=" + without[0] + " in isolio's source"
	if !m.exists("lib/modules/" + without[0] + "/build/Makefile") {
		remedy = getHeaders(osRelease(m.sys), without[0]) + ": DKMS builds the module once they are there"
	}
	return warning(name, moduleName+" is not installed for "+strings.Join(without, ", ")+": after a boot of that kernel no disk is shared", remedy)
}

// builds is what brings the module.
func (m *examination) builds() string {
	source, _ := filepath.Glob(m.sys.Path("usr/src/isolio-*/dkms.conf")) // the pattern is well formed
	switch {
	case source == nil:
		return "sudo make install in isolio's source, or install isolio-dkms"
	case !m.exists("/lib/modules/" + m.release + "/build/Makefile"):
		return "as for kernel headers: DKMS builds the module once they are there"
	}
	return "sudo dkms autoinstall: it builds the module, or names the log that says why not"
}

// shown is a path as a user of the machine calls it.
func (m *examination) shown(path string) string {
	return strings.TrimPrefix(path, m.sys.Root)
}

const (
	secureBootVariable = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
	lockdownFile       = "sys/kernel/security/lockdown"
	enforceFile        = "sys/module/module/parameters/sig_enforce"
	dkmsKey            = "var/lib/dkms/mok.pub"
	enrolledKeys       = "sys/firmware/efi/efivars/MokListRT-605dab50-e046-4300-abb6-3dd810dd8b23"
)

// secureBoot tells whether the kernel takes modules that are not signed.
func (m *examination) secureBoot() []Check {
	const name = "Secure Boot"
	enforced := m.demandsSignature()
	state := "off"
	// Four bytes of attributes, then the value.
	if value, err := os.ReadFile(m.sys.Path(secureBootVariable)); err == nil && len(value) == 5 && value[4] == 1 {
		state = "on"
	} else if !m.exists("sys/firmware/efi") {
		state = "none (no EFI)"
	}
	if enforced == "" {
		return ok(name, "%s; the kernel takes modules without a signature", state)
	}
	finding := fmt.Sprintf("%s; the kernel takes signed modules only (%s)", state, enforced)
	const enroll = "have DKMS sign it (isolio-dkms does), and enroll its key: mokutil --import /var/lib/dkms/mok.pub, reboot"
	if m.loaded() {
		return ok(name, "%s, and has loaded %s", finding, moduleName)
	}
	if m.module == "" {
		return warning(name, finding, enroll)
	}
	if signed, err := kmod.Signed(m.module); err != nil || !signed {
		return fails(name, finding+", and "+m.shown(m.module)+" is not signed", enroll)
	}
	key, err := os.ReadFile(m.sys.Path(dkmsKey))
	list, err2 := os.ReadFile(m.sys.Path(enrolledKeys))
	if err == nil && err2 == nil && !bytes.Contains(list, key) {
		return warning(name, finding+", and the key that DKMS signs with is not enrolled", "mokutil --import /"+dkmsKey+", reboot")
	}
	return ok(name, "%s, and the module has a signature", finding)
}

// demandsSignature is what makes the kernel refuse modules without one, "" for
// nothing.
func (m *examination) demandsSignature() string {
	if m.read(enforceFile) == "Y" {
		return "module.sig_enforce"
	}
	for word := range strings.FieldsSeq(m.read(lockdownFile)) {
		if active := strings.Trim(word, "[]"); active != word && active != "none" {
			return "lockdown: " + active
		}
	}
	return ""
}
