// Package state breaks the determinism rules one by one.
package state

import (
	"encoding/json" // want `import of encoding/json under apply`
	"fmt"
	"maps"
	"math/rand" // want `import of math/rand under apply`
	"os"        // want `import of os under apply`
	"slices"
	"time"
)

type clock struct{}

type bill struct {
	cost float64 // want `float64 under apply`
}

var _ bill

func (clock) String() string { return fmt.Sprintf("%d", 1) }

var _ = json.Valid

func texts(n int) (string, error) {
	if n < 0 {
		panic(fmt.Sprintf("%d is negative", n))
	}
	return fmt.Sprintf("%d jobs", n), fmt.Errorf("%d", n) // want `fmt.Sprintf under apply`
}

func (clock) Now() time.Time { return time.Time{} }

func apply(jobs map[string]int, done chan int) []string {
	_ = time.Now()             // want `time.Now under apply: time comes from the entry`
	_ = time.Since(time.Time{}) // want `time.Since under apply`
	now := time.Now            // want `time.Now under apply`
	_ = now
	_ = clock{}.Now() // A method of the same name is not the clock.
	_ = time.Duration(3).String()
	_ = rand.Int()
	_ = os.Getenv("HOME")
	go func() {}() // want `go statement under apply`
	select {       // want `select under apply`
	case <-done:
	default:
	}

	var out []string
	for id := range jobs { // want `range over a map under apply`
		out = append(out, id)
	}
	//corvo:sorted a sum does not depend on the order
	for _, n := range jobs {
		_ = n
	}
	for _, n := range jobs { //corvo:sorted a sum does not depend on the order
		_ = n
	}
	for id := range maps.Keys(jobs) { // want `maps.Keys under apply`
		out = append(out, id)
	}
	out = slices.Collect(maps.Keys(jobs)) // want `maps.Keys under apply`
	for _, id := range slices.Sorted(maps.Keys(jobs)) {
		out = append(out, id)
	}
	for i := range out {
		_ = i
	}
	return out
}

/* want "needs a reason" */ //corvo:sorted
var _ = apply
