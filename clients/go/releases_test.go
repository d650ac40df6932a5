package plimsoll

import "testing"

func owing(sensed, owed uint64) Reading {
	return Reading{Numbers: Numbers{
		Uses: 1000 + owed, Limit: 1000, Owed: owed, Deadline: 9, Level: LevelCritical, Sensed: sensed,
	}}
}

func TestADebtThatWasPaidIsNotOwedUntilTheNumbersAreNewer(t *testing.T) {
	var paid releases
	told := owing(10, 668)
	paid.add(600, 20, &told)
	if owed := paid.settle(told).Owed; owed != 68 {
		t.Error(owed)
	}
	paid.add(68, 30, &told)
	// It also holds for numbers that were on their way meanwhile.
	if on := paid.settle(owing(19, 675)); on.Owed != 7 || on.Uses != 1007 {
		t.Errorf("%+v", on)
	}
	if now := paid.settle(told); now.Owed != 0 || now.Deadline != 0 || now.Uses != 1000 || now.Level != LevelNormal {
		t.Errorf("%+v", now)
	}
	if owed := paid.settle(owing(20, 70)).Owed; owed != 2 {
		t.Errorf("the first payment shows, but not the second: %d", owed)
	}
	if after := owing(30, 5); paid.settle(after) != after {
		t.Error("both show, so what is owed now is new")
	}
}

func TestManySmallReleasesAreAllCountedAndForgottenOnceTheyShow(t *testing.T) {
	var paid releases
	shown := owing(100, 0)
	for at := uint64(101); at <= 1100; at++ {
		paid.add(1, at, &shown)
	}
	if owed := paid.settle(owing(100, 5000)).Owed; owed != 4000 || len(paid.list) > mostReleases {
		t.Error(owed)
	}
	shown = owing(1100, 0)
	paid.add(7, 1101, &shown)
	if owed := paid.settle(owing(1100, 10)).Owed; owed != 3 || len(paid.list) != 1 {
		t.Error(owed)
	}
}

func TestABrokerThatDoesNotTellWhenItSensedIsTakenByItsHeartbeat(t *testing.T) {
	var paid releases
	shown := owing(0, 9)
	shown.Heartbeat = 50
	paid.add(4, 40, &shown)
	if owed := paid.settle(shown).Owed; owed != 9 {
		t.Error(owed)
	}
	paid.add(4, 60, &shown)
	if owed := paid.settle(shown).Owed; owed != 5 {
		t.Error(owed)
	}
}
