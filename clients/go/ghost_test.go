package plimsoll

import (
	"testing"
	"time"
)

func TestTheGhostListStepsAsTheVectorsSay(t *testing.T) {
	var cases []struct {
		Name  string
		Begun time.Duration
		Steps []struct {
			Evicted []uint64
			Missed  []uint64
			Worth   []*uint64
		}
	}
	vectorCases(t, "ghost", &cases)
	for _, c := range cases {
		g := NewGhost(c.Begun)
		for _, step := range c.Steps {
			switch {
			case step.Evicted != nil:
				g.Evicted(step.Evicted[0], step.Evicted[1], step.Evicted[2])
			case step.Missed != nil:
				if g.Missed(step.Missed[0], time.Duration(step.Missed[1])); g.Has(step.Missed[0]) {
					t.Errorf("%s: a miss counts twice", c.Name)
				}
			default:
				var got *uint64
				if worth, ok := g.Worth(time.Duration(*step.Worth[0])); ok {
					got = &worth
				}
				if got, want := string(encoded(t, got)), string(encoded(t, step.Worth[1])); got != want {
					t.Errorf("%s: %s, expected %s", c.Name, got, want)
				}
			}
			if g.held > g.capacity || g.order.Len() != len(g.keys) {
				t.Errorf("%s: it holds %d of %d bytes, %d keys", c.Name, g.held, g.capacity, len(g.keys))
			}
		}
	}
}
