// Package say prints what a program sees, so that two runs of it can be compared, and ends it at the first surprise.
package say

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

var mutex sync.Mutex

// Line prints a title and values, each as JSON.
func Line(title string, values ...any) {
	mutex.Lock()
	defer mutex.Unlock()
	fmt.Print(title, ":")
	for _, value := range values {
		text, err := json.Marshal(value)
		if err != nil {
			text = []byte(err.Error())
		}
		fmt.Print(" ", string(text))
	}
	fmt.Println()
}

// Must ends the program where something failed that must not.
func Must(doing string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", doing, err)
		os.Exit(1)
	}
}

// Error prints what an error is to programs: its reason, message and causes.
func Error(title string, err error) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		Line(title, fmt.Sprint(err))
		return
	}
	it := status.Status()
	Line(title, it.Code, it.Reason, it.Message, it.Details)
}
