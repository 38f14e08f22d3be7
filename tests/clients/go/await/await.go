// Package await has a program go on once something holds.
package await

import "time"

// That looks again and again until a condition holds, or half a minute has gone, and tells whether it does.
func That(condition func() bool) bool {
	for range 600 {
		if condition() {
			return true
		}
		time.Sleep(50 * time.Millisecond)
	}
	return false
}
