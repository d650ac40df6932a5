package plimsoll

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestABrokerThatHangsIsLeftAndBlocksNobody(t *testing.T) {
	f := startFake(t, t.TempDir(), good, 1)
	p := openAt(t, f, Options{Timeout: 300 * time.Millisecond})
	await(t, p, EventJoined)
	f.freeze()
	must(t, p.SetWeight(5)) // kept for the next join
	if lost := await(t, p, EventBrokerLost); lost.Source != SourceLocal {
		t.Errorf("it was told %+v", lost)
	}
	p.Report(Report{})
	p.Released(1)
	p.Read()
}

func TestABrokerWhoseHeartStopsIsNoticedWithoutACall(t *testing.T) {
	f := startFake(t, t.TempDir(), good, 1)
	p := openAt(t, f, Options{Timeout: 300 * time.Millisecond})
	await(t, p, EventJoined)
	f.freeze()
	await(t, p, EventBrokerLost)
	if p.Read().Source != SourceLocal {
		t.Error("it still reads the page")
	}
}

func TestCloseDoesNotWaitForABrokerThatHangs(t *testing.T) {
	f := startFake(t, t.TempDir(), good, 1)
	p := openAt(t, f, Options{Timeout: time.Hour})
	await(t, p, EventJoined)
	f.freeze()
	p.Released(1)
	must(t, p.Close())
}

func TestAPageThatGrowsOldUnderALivingBrokerIsReplacedByTheStream(t *testing.T) {
	f := startFake(t, t.TempDir(), good, 1)
	p := openAt(t, f, Options{})
	await(t, p, EventJoined)
	first := p.Read().Heartbeat
	f.state(func() { f.frozen = true })
	eventually(t, "the heartbeat is fresh again", func() bool {
		now := p.Read()
		return now.Heartbeat > first+2_000_000_000 && now.Source == SourceBroker
	})
	f.publish(1, numbersOf(50*mib))
	eventually(t, "the stream tells", func() bool { return p.Read().Limit == 50*mib })
}

func TestBadBrokersCostATimeoutAtMost(t *testing.T) {
	for _, script := range []script{silent, late, truncated, dies} {
		f := startFake(t, t.TempDir(), script, 1)
		f.state(func() { f.delay = time.Second })
		p := openAt(t, f, Options{Timeout: 200 * time.Millisecond})
		eventually(t, string(script)+": alone, and it is said why", func() bool {
			return p.Read().Source == SourceLocal && isAbsent(p.Err())
		})
		f.be(good)
		if joined := await(t, p, EventJoined); joined.Limit != 100*mib {
			t.Errorf("%s: it was told %+v", script, joined)
		}
		must(t, p.Close())
	}
}

func TestBrokersThatTalkNonsenseAreNamed(t *testing.T) {
	for _, script := range []script{garbage, endless, liar, refuses} {
		f := startFake(t, t.TempDir(), script, 1)
		_, err := Open("test", Options{Socket: f.socket(), Timeout: soon})
		var nonsense *protocolError
		if !errors.As(err, &nonsense) && !isRefusal(err, "TooMany") {
			t.Errorf("%s: %v", script, err)
		}
	}
}

func TestNonsenseLaterIsLeft(t *testing.T) {
	for _, script := range []script{garbage, endless, truncated} {
		f := startFake(t, t.TempDir(), good, 1)
		p := openAt(t, f, Options{})
		await(t, p, EventJoined)
		f.be(script)
		p.Released(1)
		await(t, p, EventBrokerLost)
		f.be(good)
		await(t, p, EventJoined)
		must(t, p.Close())
	}
}

func TestWithoutAUsablePageTheStreamTellsTheNumbers(t *testing.T) {
	for _, script := range []script{noPage, shortPage, newerPage, wrongPage, pipePage} {
		f := startFake(t, t.TempDir(), script, 1)
		p := openAt(t, f, Options{})
		if now := p.Read(); now.Numbers != numbersOf(100*mib) || now.Source != SourceBroker {
			t.Errorf("%s: it reads %+v", script, now)
		}
		if err := p.Err(); err == nil || !strings.Contains(err.Error(), "page") {
			t.Errorf("%s: %v", script, err)
		}
		await(t, p, EventJoined)
		f.publish(1, numbersOf(30*mib))
		if changed := await(t, p, EventChanged); changed.Limit != 30*mib || p.Read().Limit != 30*mib {
			t.Errorf("%s: it was told %+v", script, changed)
		}
	}
}

func TestAReplacedPageChangesNothing(t *testing.T) {
	f := startFake(t, t.TempDir(), good, 1)
	p := openAt(t, f, Options{})
	must(t, os.Remove(f.pagePath(1)))
	must(t, os.WriteFile(f.pagePath(1), []byte(strings.Repeat("\xff", pageSize)), 0o600))
	f.publish(1, numbersOf(40*mib))
	if now := p.Read(); now.Limit != 40*mib || now.Source != SourceBroker {
		t.Errorf("it reads %+v", now)
	}
}

func TestATruncatedPageCostsNobodyTheLife(t *testing.T) {
	f := startFake(t, t.TempDir(), good, 1)
	p := openAt(t, f, Options{})
	await(t, p, EventJoined)
	f.state(func() { f.frozen = true })
	must(t, os.Truncate(f.pagePath(1), 0))
	var readers sync.WaitGroup
	for i := 0; i < 4; i++ {
		readers.Add(1)
		go func() {
			defer readers.Done()
			for i := 0; i < 10_000; i++ {
				if now := p.Read(); now.Limit != 100*mib || now.Source == SourceLocal {
					t.Errorf("it reads %+v", now)
					return
				}
			}
		}()
	}
	readers.Wait()
	eventually(t, "the stream takes over", func() bool { return p.Read().Source == SourceBroker })
	f.publish(1, numbersOf(50*mib))
	eventually(t, "and goes on", func() bool { return p.Read().Limit == 50*mib })
	f.kill()
	await(t, p, EventBrokerLost)
}

func TestABrokerThatDiesWhileItWritesIsLeft(t *testing.T) {
	f := startFake(t, t.TempDir(), good, 1)
	p := openAt(t, f, Options{Timeout: 300 * time.Millisecond})
	await(t, p, EventJoined)
	f.state(func() { f.pages[1].put(wordSequence, 7) })
	if now := p.Read(); now.Limit != 100*mib {
		t.Errorf("it reads %+v", now)
	}
	f.freeze()
	await(t, p, EventBrokerLost)
}

func TestAHundredChangesAreMerged(t *testing.T) {
	f := startFake(t, t.TempDir(), good, 1)
	p := openAt(t, f, Options{})
	await(t, p, EventJoined)
	for limit := uint64(1); limit <= 1000; limit++ {
		f.publish(1, numbersOf(limit*mib))
	}
	for await(t, p, EventChanged).Limit != 1000*mib {
	}
}

func TestAnOlderBrokerGetsReportsWithoutWorth(t *testing.T) {
	f := startFake(t, t.TempDir(), old, 1)
	p := openAt(t, f, Options{})
	await(t, p, EventJoined)
	told := func(f *fake) (reports []string) {
		f.state(func() {
			for _, report := range f.reports {
				reports = append(reports, string(encoded(t, report)))
			}
		})
		return reports
	}
	expect := func(f *fake, want ...string) {
		t.Helper()
		eventually(t, strings.Join(want, " "), func() bool { return len(told(f)) >= len(want) })
		if got := told(f); !reflect.DeepEqual(got, want) {
			t.Errorf("it was told %v", got)
		}
	}
	p.Report(Report{Demand: Value(5), Worth: Value(7)})
	first := []string{`{"id":1,"demand":5,"worth":7}`, `{"id":1,"demand":5}`}
	expect(f, first...)
	p.Report(Report{Live: Value(3), Worth: Value(8)})
	expect(f, append(first, `{"id":1,"live":3,"demand":5}`)...)
	if p.Err() != nil {
		t.Error(p.Err())
	}
	f.kill()
	newer := startFake(t, f.dir, good, 1)
	await(t, p, EventJoined)
	expect(newer, `{"id":1,"live":3,"demand":5,"worth":8}`)
}
