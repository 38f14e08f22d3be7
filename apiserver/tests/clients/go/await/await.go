// Package await has a program go on once something holds.
package await

import "time"

// That looks again and again until a condition holds, or two minutes have gone, and tells whether it does.
func That(condition func() bool) bool {
	for range 2400 {
		if condition() {
			return true
		}
		time.Sleep(50 * time.Millisecond)
	}
	return false
}
