package plimsoll

// A Report is what a program knows of itself. Fields that are nil are not known or have not changed; see
// [Value]. A cache reports Demand, and perhaps Floor.
type Report struct {
	Live            *uint64 `json:"live,omitempty"`             // live bytes after the last full collection
	AllocationRate  *uint64 `json:"allocation_rate,omitempty"`  // bytes per second that it allocates
	CollectionSpeed *uint64 `json:"collection_speed,omitempty"` // bytes per second that a collection processes
	Demand          *uint64 `json:"demand,omitempty"`           // the most memory that it can use, bytes
	Floor           *uint64 `json:"floor,omitempty"`            // the least that it can reach by adapting, bytes
	ReactionMS      *uint64 `json:"reaction_ms,omitempty"`      // milliseconds that giving back takes, as measured
	Collections     *uint64 `json:"collections,omitempty"`      // collections since its start
	CollectionMS    *uint64 `json:"collection_ms,omitempty"`    // milliseconds spent in them since its start
	// Nanoseconds that a cache would save in a second with one more MiB; see [Ghost].
	Worth *uint64 `json:"worth,omitempty"`
}

// Value returns a pointer to a number, for the fields of a [Report].
func Value(number uint64) *uint64 { return &number }

// merge takes over the fields that are known.
func (r *Report) merge(news Report) {
	r.Live = or(news.Live, r.Live)
	r.AllocationRate = or(news.AllocationRate, r.AllocationRate)
	r.CollectionSpeed = or(news.CollectionSpeed, r.CollectionSpeed)
	r.Demand = or(news.Demand, r.Demand)
	r.Floor = or(news.Floor, r.Floor)
	r.ReactionMS = or(news.ReactionMS, r.ReactionMS)
	r.Collections = or(news.Collections, r.Collections)
	r.CollectionMS = or(news.CollectionMS, r.CollectionMS)
	r.Worth = or(news.Worth, r.Worth)
}

// or returns the first of two values, or else the second.
func or[T any](first, second *T) *T {
	if first != nil {
		return first
	}
	return second
}

// outbox holds what waits to be sent. Reports are merged and released bytes summed, so it never grows.
type outbox struct {
	report   Report // all reports so far, merged: a new broker gets all of it
	isNew    bool   // the present broker lacks some of it
	released uint64 // released and not told yet, bytes
}

func (o *outbox) add(report Report) {
	o.report.merge(report)
	o.isNew = true
}

// startAnew prepares for a new broker: it needs the whole report, but released bytes are old news.
func (o *outbox) startAnew() {
	o.isNew = o.isNew || o.report != Report{}
	o.released = 0
}

// take takes what is to be sent. The merged report stays for the next broker.
func (o *outbox) take() outbox {
	taken := *o
	o.isNew, o.released = false, 0
	return taken
}
