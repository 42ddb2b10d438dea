// SPDX-License-Identifier: MIT

package guest

// EngineVersion is the version of what measures. Raise it by one, with a line below, in a
// commit after which the same experiment on the same modules has other figures: another
// order of set-up, another counter, another formula. Leave it for messages, comments, tables
// and whatever the figures do not depend on.
//
//	1  the first that results name
//	2  fio's requests a second are those that completed
const EngineVersion = 2
