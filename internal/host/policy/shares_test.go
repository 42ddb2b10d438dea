// SPDX-License-Identifier: MIT

package policy

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"isolio/internal/host/cgroup"
	"isolio/internal/host/rule"
	"isolio/internal/host/state"
	"isolio/internal/host/target"
	"isolio/internal/host/weight"
	"isolio/internal/must"
)

// chartRules are the rules that the chart has by default.
func chartRules(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../deploy/helm/isolio/values.yaml")
	must.OK(t, err)
	var values struct{ Daemon struct{ Rules string } }
	must.OK(t, yaml.Unmarshal(text, &values))
	return values.Daemon.Rules
}

// cluster is a node with random rules, claims and pods.
type cluster struct {
	config rule.Config
	// pods are those in cgroups, by it; groups has all cgroups, parents first.
	all    []target.Container
	pods   []string
	groups []string
	// claimed and ruled are what each pod has by its claims and by a rule, by disk.
	claimed, ruled map[string]map[string]int
	// sold are the shares of claims, and asked the weights of the other pods.
	sold map[string]int
}

var shareDisks = []string{"8:0", "8:16"}

// aCluster sells no more than a disk has for sale: kube-scheduler does so. All else is random: rules for
// namespaces, some for one disk; annotations that ask for anything; claims of several pods, on few
// shares, of pods that ended; pods that a rule is for and that have a claim as well.
func aCluster(t *testing.T, chart string, random *rand.Rand) *cluster {
	t.Helper()
	c := &cluster{claimed: map[string]map[string]int{}, ruled: map[string]map[string]int{}, sold: map[string]int{}}
	text := chart
	byRule := map[string]map[string]int{}
	for n := range random.IntN(4) {
		space, byDisk := fmt.Sprintf("ruled-%d", n), random.IntN(2) == 0
		w := 1 + random.IntN(1+random.IntN(2000))
		text += fmt.Sprintf("\n[[rule]]\npod = '%s/*'\nweight = %d\n", space, w)
		byRule[space] = map[string]int{"8:0": w}
		if byDisk {
			text += "device = 'sda'\n"
		} else {
			byRule[space]["8:16"] = w
		}
	}
	if random.IntN(3) == 0 {
		most := 1 + random.IntN(2000)
		text += fmt.Sprintf("\n[[rule]]\npod = 'limited/*'\nmax_weight = %d\ndefault = %d\n", most, 1+random.IntN(most))
	}
	var err error
	c.config, err = rule.Parse("isolio.toml", []byte(text))
	must.OK(t, err)
	var book state.Claims
	uids := random.IntN(120)
	for claim := range random.IntN(40) {
		disk := shareDisks[random.IntN(2)]
		n := 1 + random.IntN(1+random.IntN(600))
		if uids == 0 || c.sold[disk]+n > state.SharesForSale {
			continue
		}
		c.sold[disk] += n
		for range 1 + random.IntN(1+random.IntN(8)) {
			uid := fmt.Sprint(random.IntN(uids))
			pod := state.PodClaims{UID: uid}
			if old := book.Find(uid); old != nil {
				pod = *old
			}
			s := on(disk, 0)
			s.ClaimUID, s.Claimed, s.Device = fmt.Sprint(claim), n, disk
			pod.Shares, pod.Ended = append(pod.Shares[:len(pod.Shares):len(pod.Shares)], s), pod.Ended || random.IntN(20) == 0
			book.Set(pod)
		}
	}
	book.Split()
	classes := []string{"kubepods.slice", "kubepods.slice/kubepods-burstable.slice", "kubepods.slice/kubepods-besteffort.slice"}
	c.groups = append([]string{"system.slice", "user.slice"}, classes...)
	for i := range uids {
		slice := fmt.Sprintf("pod%08d_1111_1111_1111_111111111111.slice", i)
		group := map[int]string{0: classes[0] + "/kubepods-", 1: classes[1] + "/kubepods-burstable-", 2: classes[2] + "/kubepods-besteffort-"}[random.IntN(3)] + slice
		one := target.Container{ID: fmt.Sprint(i), Namespace: fmt.Sprintf("ruled-%d", random.IntN(8)), Pod: fmt.Sprintf("p%d", i), Sandbox: true, Cgroup: group + "/pause"}
		if random.IntN(6) == 0 {
			one.Namespace = "limited"
		}
		if random.IntN(2) == 0 {
			one.Annotations = map[string]string{"isolio.dev/weight": []string{fmt.Sprint(random.IntN(12000)), "much", "-1", "1000", "99999999999999999999"}[random.IntN(5)]}
		}
		one.Given = book.Find(fmt.Sprint(i))
		c.claimed[group], c.ruled[group] = map[string]int{}, byRule[one.Namespace]
		if one.Given != nil {
			for _, s := range one.Given.Shares {
				c.claimed[group][s.MajMin] += s.Share
			}
		}
		c.all, c.pods, c.groups = append(c.all, one), append(c.pods, group), append(c.groups, group)
	}
	return c
}

// Shares are conserved, whatever is claimed, split, ruled or annotated. On each disk:
//   - the parts of a claim are no more than the claim, and a pod has its parts and the weights of rules in full;
//   - all other pods have what these leave, and the reserve at least, as far as they ask for it;
//   - where that is more than the disk has, Given tells by how much, and else it says nothing;
//   - no pod with a claim is entitled to less than its part of what pods have, and system.slice to no
//     less than its floor, with every pod active.
func TestSharesAreConserved(t *testing.T) {
	rounds := 1500
	if testing.Short() {
		rounds = 150
	}
	chart := chartRules(t)
	random := rand.New(rand.NewPCG(52, 1))
	over, claims, most := 0, 0, 0
	for round := range rounds {
		c := aCluster(t, chart, random)
		m := New(c.config, DiskNumbers{"sda": {"8:0"}, "sdb": {"8:16"}}, c.all)
		wants := map[string]map[string]Want{}
		for _, group := range c.groups {
			w, _, err := m.Wants(group, files(nil))
			must.OK(t, err)
			wants[group] = w
		}
		told := m.Given(files(nil))
		of := map[string]int{}
		for _, one := range c.all {
			if one.Given == nil {
				continue
			}
			for _, s := range one.Given.Shares {
				if of[s.ClaimUID] += s.Share; of[s.ClaimUID] > s.Claimed {
					t.Fatalf("round %d: pods have %d of a claim on %d", round, of[s.ClaimUID], s.Claimed)
				}
			}
		}
		for _, disk := range shareDisks {
			fail := func(format string, args ...any) {
				t.Helper()
				t.Fatalf("round %d, disk %s: %s", round, disk, fmt.Sprintf(format, args...))
			}
			byClaim, beyond, given, rest, restAsks, least := 0, 0, 0, 0, 0, 0
			for _, group := range c.pods {
				own, _, err := m.own(group, files(nil))
				must.OK(t, err)
				has, asks := int(ownOn(wants[group], disk).Weight), int(ownOn(own, disk).Weight)
				claimed, ruled := c.claimed[group][disk], c.ruled[group][disk]
				byClaim += claimed
				switch {
				case ruled > 0 && has != ruled, ruled == 0 && claimed > 0 && has != claimed:
					fail("%s has %d; a rule gives %d, claims %d", group, has, ruled, claimed)
				case ruled > 0:
					beyond, given = beyond+max(ruled-claimed, 0), given+ruled
				case claimed > 0:
					given += claimed
				default:
					rest, restAsks, least = rest+has, restAsks+asks, least+1
				}
			}
			if byClaim > c.sold[disk] {
				fail("pods have %d of claims on %d", byClaim, c.sold[disk])
			}
			if (told[disk] != Given{byClaim, beyond}) {
				fail("%+v is told; claims give %d, rules %d beyond", told[disk], byClaim, beyond)
			}
			if byClaim == 0 {
				continue // weights are relative
			}
			left := max(state.WholeDisk-given, state.ReservedShares)
			if rest > left+least || rest < min(restAsks, left)-least {
				fail("%d by claims and rules, %d of %d for %d others that ask for %d", given, rest, left, least, restAsks)
			}
			// The least weight of each pod beside a full disk may be more than the reserve.
			excess := max(given+rest-state.WholeDisk, 0)
			if n := told[disk].Over(); n > 0 {
				over++
			} else if excess > state.ReservedShares+least {
				fail("claims, rules and others have %d, and nothing tells", given+rest)
			}
			most = max(most, excess)
			parts := c.entitled(disk, wants)
			if got := parts["system.slice"]; got < 100.0/1200-1e-9 {
				fail("system.slice is entitled to %.4f", got)
			}
			for _, group := range c.pods {
				claimed := c.claimed[group][disk]
				if claimed == 0 || c.ruled[group][disk] > 0 {
					continue
				}
				claims++
				want := float64(claimed) / float64(max(given+rest, state.WholeDisk)) * 1000 / 1200
				if parts[group] < want-1e-9 {
					fail("%s claims %d and is entitled to %.4f, want %.4f", group, claimed, parts[group], want)
				}
				if why := ownOn(wants[group], disk).Why; strings.Contains(why, "each has less in proportion") != (given > state.WholeDisk) {
					fail("%d are given, and a claim says %q", given, why)
				}
			}
		}
	}
	t.Logf("%d rounds: %d claims of pods, %d disks of which rules give too much, at most %d shares beyond", rounds, claims, over, most)
	if claims < rounds || over == 0 {
		t.Errorf("only %d claims, %d disks of which rules give too much", claims, over)
	}
}

// entitled is what each cgroup is entitled to while all are active.
func (c *cluster) entitled(disk string, wants map[string]map[string]Want) map[string]float64 {
	used := map[string]uint64{RootGroup: 0}
	for _, group := range append([]string{"system.slice", "user.slice"}, c.pods...) {
		for at := group; ; at = parent(at) {
			used[at] += 1 << 20
			if at == RootGroup {
				break
			}
		}
	}
	groups := append([]string{RootGroup}, c.groups...)
	empty := IOSample{Groups: groups, Stats: map[string]map[string]cgroup.IOStat{}}
	full := IOSample{At: empty.At.Add(1e9), Groups: groups, Stats: map[string]map[string]cgroup.IOStat{}}
	for group, n := range used {
		full.Stats[group] = map[string]cgroup.IOStat{disk: {ReadBytes: n}}
	}
	parts := map[string]float64{}
	for _, p := range Entitlements(empty, full, disk, Bytes, func(group string) weight.Value {
		if w := ownOn(wants[group], disk).Weight; w != 0 {
			return w
		}
		return weight.Default
	}) {
		parts[p.Group] = p.Entitled
	}
	return parts
}

func parent(group string) string {
	if i := strings.LastIndexByte(group, '/'); i >= 0 {
		return group[:i]
	}
	return RootGroup
}
