// SPDX-License-Identifier: MIT

package kubectl
