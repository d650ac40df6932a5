package plimsoll

import (
	"math/rand"
	"os"
	"testing"

	"plimsoll/internal/sense"
)

func sensed(capacity, room, uses uint64) sense.Sensed {
	return sense.Sensed{Capacity: capacity * mib, Room: room * mib, Uses: uses * mib}
}

func TestLocalSensingTakesAPartAndGivesBack(t *testing.T) {
	calm := decide(sensed(1600, 832, 100), noBound, &Numbers{}, 5)
	if calm.Limit != 300*mib || calm.Available != 900*mib || calm.Owed != 0 || calm.Level != LevelNormal {
		t.Errorf("%+v", calm)
	}
	short := decide(sensed(1600, 12, 100), noBound, &calm, 5)
	if short.Owed != 20*mib || short.Limit != 80*mib || short.Deadline != 5+patience || short.Level != LevelWarning {
		t.Errorf("%+v", short)
	}
	late := decide(sensed(1600, 12, 100), noBound, &short, short.Deadline+1)
	if late.Deadline != short.Deadline || late.Level != LevelCritical {
		t.Errorf("a debt keeps its deadline: %+v", late)
	}
}

func TestADeadBrokersLimitHoldsForAWhile(t *testing.T) {
	l := local{sensor: sense.New(os.Getpid())}
	l.inherit(7*mib, 1000)
	if now := l.sense(2000); now.Limit > 7*mib {
		t.Errorf("%+v", now)
	}
	if now := l.sense(1000 + grace); now.Uses == 0 || now.Limit <= 7*mib && now.Owed == 0 {
		t.Errorf("%+v", now)
	}
}

func TestLocalSensingNeverTakesMoreThanThereIs(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	for i := 0; i < 100_000; i++ {
		capacity := random.Uint64() >> (random.Intn(50) + 14)
		room := random.Uint64() % (capacity + 1)
		uses := random.Uint64() % (capacity - room + 1)
		bound, now := random.Uint64()>>random.Intn(64), random.Uint64()>>random.Intn(64)
		n := decide(sense.Sensed{Capacity: capacity, Room: room, Uses: uses}, bound, &Numbers{}, now)
		if n.Limit > uses+room || n.Limit > bound || n.Available > uses+room || n.Owed > uses ||
			n.Owed == 0 && n.Deadline != 0 {
			t.Fatalf("%d %d %d %d: %+v", capacity, room, uses, bound, n)
		}
	}
}
