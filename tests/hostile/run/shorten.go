// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"isolio/tests/hostile/script"
)

// shorten looks for a smaller choice that fails as the first one did: it leaves
// out kinds of operations, in halves, quarters and so on, and then ends all
// actors earlier. What fails by chance may not fail again, so each try counts
// only when it does.
func (o options) shorten(ctx context.Context, c script.Choice, first outcome) script.Choice {
	if o.shrink == 0 {
		return c
	}
	end := time.Now().Add(o.shrink)
	fails := func(try script.Choice) (outcome, bool) {
		if time.Now().After(end) || ctx.Err() != nil {
			return outcome{}, false
		}
		result, err := o.boot(ctx, try, io.Discard)
		again := err == nil && !result.passed && result.signature == first.signature
		fmt.Printf("=== hostile: without %v, cuts %v: fails alike: %t\n", try.Without, try.Cuts, again)
		return result, again
	}
	if len(first.progress) > 0 {
		c.Cuts = first.progress
	}
	c = fewerKinds(c, func(try script.Choice) bool { _, again := fails(try); return again })
	return fewerOperations(c, func(try script.Choice) bool { _, again := fails(try); return again })
}

// fewerKinds leaves out as many kinds as it can.
func fewerKinds(c script.Choice, fails func(script.Choice) bool) script.Choice {
	left := slices.DeleteFunc(script.Kinds(), func(kind string) bool { return slices.Contains(c.Without, kind) })
	for size := (len(left) + 1) / 2; size >= 1; size /= 2 {
		for at := 0; at < len(left); {
			chunk := left[at:min(at+size, len(left))]
			try := c
			try.Without = slices.Concat(c.Without, chunk)
			if fails(try) {
				c = try
				left = slices.Concat(left[:at], left[at+len(chunk):])
			} else {
				at += size
			}
		}
	}
	return c
}

// fewerOperations ends all actors at the smallest part of their lists that fails.
func fewerOperations(c script.Choice, fails func(script.Choice) bool) script.Choice {
	const parts = 16
	whole := c.Cuts
	for low, high := 0, parts; high-low > 1; {
		middle := (low + high) / 2
		try := c
		try.Cuts = maps.Clone(whole)
		for name := range whole {
			try.Cuts[name] = whole[name] * middle / parts
		}
		if fails(try) {
			c, high = try, middle
		} else {
			low = middle
		}
	}
	return c
}
