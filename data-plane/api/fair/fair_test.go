package fair

import (
	"math/rand/v2"
	"testing"
)

func TestBudget_WhoIsAloneMayHaveEverything(t *testing.T) {
	t.Parallel()
	b := NewBudget[string](100, nil)
	for range 100 {
		if !b.Take("a", 1) {
			t.Fatalf("refused at %d of 100", b.Used())
		}
	}
	if b.Take("a", 1) {
		t.Fatal("took more than there is")
	}
}

func TestBudget_WhoHasLessThanItsShareIsNotTurnedAway(t *testing.T) {
	t.Parallel()
	weights := map[string]int64{"heavy": 3}
	b := NewBudget(100, func(k string) int64 { return weights[k] })
	for b.Take("flood", 10) {
	}
	took := int64(0)
	for b.Take("heavy", 1) {
		took++
	}
	if took != 75 { // Of 100 by 3:1.
		t.Errorf("weight 3 beside weight 1 got %d of 100, want 75", took)
	}
	if b.Take("flood", 1) {
		t.Error("the flood took more while it had more than its share")
	}
	if !b.Take("third", 20) { // 100/5.
		t.Error("a third was refused within its share")
	}
}

func TestBudget_TheWholeIsNeverDoubled(t *testing.T) {
	t.Parallel()
	b := NewBudget[int](100, nil)
	for b.Take(0, 1) {
	}
	for k := 1; k < 1000; k++ {
		for b.Take(k, 1) {
		}
	}
	if b.Used() > 200 {
		t.Fatalf("%d of 100 in use", b.Used())
	}
}

func TestBudget_WhatIsGivenBackIsThere(t *testing.T) {
	t.Parallel()
	b := NewBudget[int](1000, nil)
	rng := rand.New(rand.NewPCG(1, 2))
	have := map[int]int64{}
	for range 10_000 {
		k, n := rng.IntN(5), int64(1+rng.IntN(50))
		if have[k] >= n && rng.IntN(2) == 0 {
			b.Give(k, n)
			have[k] -= n
		} else if b.Take(k, n) {
			have[k] += n
		}
	}
	for k, n := range have {
		b.Give(k, n)
	}
	if b.Used() != 0 || b.weights != 0 || len(b.by) != 0 {
		t.Fatalf("%d in use, weights %d, %d keys after everything was given back", b.Used(), b.weights, len(b.by))
	}
}

func TestQueue_OneKeyIsServedInItsOrder(t *testing.T) {
	t.Parallel()
	q := NewQueue[string, int](10, nil)
	for i := range 100 {
		q.Push("a", int64(1+i%20), i)
	}
	for i := range 100 {
		if v, ok := q.Pop(); !ok || v != i {
			t.Fatalf("item %d is %d, %v", i, v, ok)
		}
	}
	if _, ok := q.Pop(); ok || q.Len() != 0 || len(q.lines) != 0 {
		t.Fatal("the queue is not empty")
	}
}

func TestQueue_KeysThatAlwaysWaitGetTheirWeight(t *testing.T) {
	t.Parallel()
	weights := map[string]int64{"a": 1, "b": 2, "c": 5}
	q := NewQueue[string, int64](64, func(k string) int64 { return weights[k] })
	rng := rand.New(rand.NewPCG(3, 4))
	keys := map[int64]string{}
	push := func(k string) {
		cost := int64(1 + rng.IntN(100))
		id := int64(len(keys))<<32 | cost
		keys[id] = k
		q.Push(k, cost, id)
	}
	for k := range weights {
		for range 10 {
			push(k)
		}
	}
	got := map[string]int64{}
	var all int64
	for range 20_000 {
		v, _ := q.Pop()
		k := keys[v]
		got[k] += v & 0xffffffff
		all += v & 0xffffffff
		push(k)
	}
	for k, w := range weights {
		if want := all * w / 8; got[k] < want*97/100 || got[k] > want*103/100 {
			t.Errorf("%s with weight %d got %d of %d, want about %d", k, w, got[k], all, want)
		}
	}
}

func TestQueue_WhatComesNowAndThenGoesFirst(t *testing.T) {
	t.Parallel()
	q := NewQueue[int, int](64, nil)
	for flood := 1; flood <= 10; flood++ {
		for range 50 {
			q.Push(flood, 64, flood)
		}
	}
	for range 30 {
		q.Pop()
	}
	q.Push(0, 1, 0)
	if v, _ := q.Pop(); v != 0 {
		t.Fatalf("%d was served before the one that just came", v)
	}
}

func TestQueue_WhoEmptiesItsLineEachTimeStarvesNobody(t *testing.T) {
	t.Parallel()
	q := NewQueue[string, string](4, nil)
	for range 100 {
		q.Push("waits", 1, "waits")
	}
	q.Push("again", 1, "again")
	served := map[string]int{}
	for range 100 {
		v, _ := q.Pop()
		served[v]++
		if v == "again" {
			q.Push("again", 1, "again")
		}
	}
	if served["waits"] < 45 {
		t.Fatalf("%v: the line that waits should get half", served)
	}
}
