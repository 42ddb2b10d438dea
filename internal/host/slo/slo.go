// SPDX-License-Identifier: MIT

// Package slo is what a promise to a tenant becomes: a plan turns it into weights (plan.go), a judge
// tells in each interval whether it was demanded and kept (judge.go), the history keeps that for 30
// days (history.go), a report sums it up (report.go), and a control law raises the weight of a tenant
// that misses it (law.go). It decides; the daemon reads counters and writes weights.
package slo
