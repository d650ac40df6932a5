package govern

import (
	"encoding/json"
	"math/rand"
	"os"
	"reflect"
	"testing"
)

const mib = 1 << 20

func TestStepsAsTheVectorsSay(t *testing.T) {
	raw, err := os.ReadFile("../../vectors/governor.json")
	if os.IsNotExist(err) {
		t.Skip("skipped: clients/vectors is not there")
	}
	type reported struct {
		AllocationRate *uint64 `json:"allocation_rate"`
		Floor          uint64
		ReactionMS     uint64 `json:"reaction_ms"`
	}
	type expected struct {
		Rate         uint64
		Family       uint64
		ProcessLimit uint64  `json:"process_limit"`
		HeapLimit    uint64  `json:"heap_limit"`
		ReleaseTo    *uint64 `json:"release_to"`
		MayRelease   bool    `json:"may_release"`
		Report       *reported
	}
	var all struct {
		Cases []struct {
			Name               string
			Started, Allocated uint64
			Steps              []struct {
				Now, Allocated uint64
				Granted        Granted
				Own            Own
				Expect         expected
				Released       *struct{ Began, Ended, Resident uint64 }
			}
		}
	}
	if err := json.Unmarshal(raw, &all); err != nil || len(all.Cases) == 0 {
		t.Fatal(err)
	}
	for _, c := range all.Cases {
		g := New(c.Started, c.Allocated)
		for _, step := range c.Steps {
			rate := g.Measure(step.Now, step.Allocated)
			s := g.Step(step.Now, step.Granted, step.Own)
			found := expected{rate, s.Family, s.ProcessLimit, s.HeapLimit, nil, s.MayRelease, nil}
			if s.Release {
				found.ReleaseTo = &s.ReleaseTo
			}
			if s.Report != nil {
				told := reported(*s.Report) // the fields are the same, but for their tags
				found.Report = &told
			}
			if !reflect.DeepEqual(found, step.Expect) {
				t.Errorf("%s at %d: %+v, expected %+v", c.Name, step.Now, found, step.Expect)
			}
			if told := step.Released; told != nil {
				g.Released(told.Began, told.Ended, told.Resident)
			}
		}
	}
}

func TestTheHeapTheRestAndTheFamilyNeverExceedTheLimit(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	bytes := func() uint64 { return random.Uint64() >> random.Intn(64) }
	for run := 0; run < 5000; run++ {
		g := New(0, 0)
		for look := random.Intn(40); look >= 0; look-- {
			now, limit, owed := bytes(), bytes(), bytes()
			own := Own{bytes(), bytes(), bytes(), bytes()}
			g.Measure(now, own.Resident)
			s := g.Step(now, Granted{limit, owed, bytes()}, own)
			all := plus(own.Resident, s.Family)
			// Above the limit each member of the family gives its part, and none grows.
			within := plus(s.ProcessLimit, s.Family) <= max(limit, s.Family) ||
				all > threshold(limit) && s.ProcessLimit <= own.Resident
			switch {
			case s.ProcessLimit > limit, s.HeapLimit > s.ProcessLimit, !within,
				s.HeapLimit > 0 && plus(s.HeapLimit, own.Beside) > s.ProcessLimit,
				s.Release && (s.ReleaseTo > s.HeapLimit || !s.MayRelease),
				owed > 0 && !s.Release && s.MayRelease && all > threshold(limit),
				s.Report != nil && s.Report.Floor < own.Needs:
				t.Fatalf("limit %d, owed %d, %+v: %+v", limit, owed, own, s)
			}
			if random.Intn(2) == 0 {
				g.Released(now, plus(now, owed/7), own.Resident)
			}
		}
	}
}

func TestASteadyRateIsMeasuredWhateverTheLooks(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	for run := 0; run < 1000; run++ {
		steady := random.Uint64() >> 28
		g := New(0, 0)
		var now, measured uint64
		for look := 0; look < 80; look++ {
			now += uint64(20+random.Intn(380)) * millisecond
			measured = g.Measure(now, part(steady, now, second))
		}
		// Each look rounds down.
		if max(measured, steady)-min(measured, steady) > 200 {
			t.Fatalf("%d of %d", measured, steady)
		}
	}
}

func TestADebtIsAskedForEverMoreRarely(t *testing.T) {
	g := New(1, 0)
	asked := 0
	for half := uint64(1); half <= 606; half++ {
		now := half * 500 * millisecond
		s := g.Step(now, Granted{512 * mib, 78 * mib, 590 * mib}, Own{Resident: 590 * mib, Guard: mib})
		if s.Release {
			asked++
			g.Released(now, now, 590*mib)
		}
	}
	// At 0, 0.5, 1.5, 3.5, 7.5, 15.5 s and so on, and then each 30 s.
	if asked < 14 || asked > 16 {
		t.Errorf("it asked %d times", asked)
	}
}
