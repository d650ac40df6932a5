package plimsoll

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// The parameters of calls and replies, as io.plimsoll.varlink declares them. A nil field is left out.

type registerCall struct {
	Name     string  `json:"name"`
	Kind     string  `json:"kind,omitempty"`
	PID      *int    `json:"pid,omitempty"`
	Parent   *uint64 `json:"parent,omitempty"`
	Weight   *int    `json:"weight,omitempty"`
	Priority *int    `json:"priority,omitempty"`
	Max      *uint64 `json:"max,omitempty"`
	Adapter  string  `json:"adapter,omitempty"`
}

type attachCall struct {
	ID  uint64 `json:"id"`
	PID int    `json:"pid"`
}

type adaptCall struct {
	ID      uint64 `json:"id"`
	Adapter string `json:"adapter,omitempty"`
	Name    string `json:"name,omitempty"`
}

type reportCall struct {
	ID uint64 `json:"id"`
	Report
}

type whichCall struct {
	ID uint64 `json:"id"`
}

type releasedCall struct {
	ID    uint64 `json:"id"`
	Bytes uint64 `json:"bytes"`
}

type setCall struct {
	ID       uint64  `json:"id"`
	Weight   *int    `json:"weight,omitempty"`
	Priority *int    `json:"priority,omitempty"`
	Max      *uint64 `json:"max,omitempty"` // 0 removes the bound
}

type nothing struct{}

type registeredReply struct {
	ID       uint64 `json:"id"`
	Page     string `json:"page"`
	Pressure string `json:"pressure"`
	Weight   int    `json:"weight"`
	Priority int    `json:"priority"`
}

type changedReply struct {
	ID         uint64  `json:"id"`
	Generation uint64  `json:"generation"`
	Numbers    Numbers `json:"numbers"`
}

type listReply struct {
	Principals []listed `json:"principals"`
}

// listed is the part of a principal in a listing that is needed here.
type listed struct {
	ID       uint64   `json:"id"`
	Name     string   `json:"name"`
	PID      *int     `json:"pid"`
	Kind     string   `json:"kind"`
	Adapter  string   `json:"adapter"`
	Page     string   `json:"page"`
	Children []listed `json:"children"`
}

// required are the fields without which a reply is none.
var (
	registeredFields = []string{"id", "page", "pressure", "weight", "priority"}
	changedFields    = []string{"id", "generation", "numbers"}
	numbersFields    = []string{"limit", "available", "owed", "deadline", "uses", "share", "level"}
	listFields       = []string{"principals"}
)

func (r *registeredReply) UnmarshalJSON(raw []byte) error {
	type plain registeredReply
	return unmarshalWith(raw, (*plain)(r), registeredFields)
}

func (r *changedReply) UnmarshalJSON(raw []byte) error {
	type plain changedReply
	return unmarshalWith(raw, (*plain)(r), changedFields)
}

func (r *listReply) UnmarshalJSON(raw []byte) error {
	type plain listReply
	return unmarshalWith(raw, (*plain)(r), listFields)
}

// UnmarshalJSON reads numbers as brokers write them. It fails if one of them is missing.
func (n *Numbers) UnmarshalJSON(raw []byte) error {
	type plain Numbers
	return unmarshalWith(raw, (*plain)(n), numbersFields)
}

// unmarshalWith reads an object that has to have these fields.
func unmarshalWith(raw []byte, into any, required []string) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return err
	}
	for _, name := range required {
		if value, ok := fields[name]; !ok || string(value) == "null" {
			return fmt.Errorf("it lacks %q", name)
		}
	}
	return json.Unmarshal(raw, into)
}

// call is a message to a broker.
type call struct {
	Method     string `json:"method"`
	Parameters any    `json:"parameters"`
	More       bool   `json:"more,omitempty"`
	Oneway     bool   `json:"oneway,omitempty"`
}

// encode returns the message with the NUL byte that ends it.
func (c call) encode() ([]byte, error) {
	if !strings.Contains(c.Method, ".") {
		c.Method = "io.plimsoll." + c.Method
	}
	message, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	if len(message) >= maxCall {
		return nil, fmt.Errorf("a message has at most %d bytes, this one has %d", maxCall, len(message))
	}
	return append(message, 0), nil
}

// reply is a message of a broker.
type reply struct {
	Parameters json.RawMessage `json:"parameters"`
	Continues  bool            `json:"continues"`
	Error      string          `json:"error"`
}

// parseReply reads a message, without the NUL byte that ends it.
func parseReply(message []byte) (*reply, error) {
	if !isObject(message) {
		return nil, fmt.Errorf("the reply is no JSON object")
	}
	found := new(reply)
	if err := json.Unmarshal(message, found); err != nil {
		return nil, fmt.Errorf("the message is not a reply: %w", err)
	}
	if raw := string(found.Parameters); raw == "" || raw == "null" {
		found.Parameters = json.RawMessage("{}")
	}
	return found, nil
}

// result reads the parameters. A refusal is a [RefusedError].
func (r *reply) result(into any) error {
	if r.Error != "" {
		return r.refusal()
	}
	if !isObject(r.Parameters) {
		return fmt.Errorf("the parameters have to be a JSON object")
	}
	if err := json.Unmarshal(r.Parameters, into); err != nil {
		return fmt.Errorf("the parameters: %w", err)
	}
	return nil
}

func (r *reply) refusal() error {
	var told struct {
		Message   string `json:"message"`
		Parameter string `json:"parameter"`
	}
	// An error without a message is one all the same.
	_ = json.Unmarshal(r.Parameters, &told)
	name := shorten(r.Error)
	if told.Message == "" {
		told.Message = name
	}
	return &RefusedError{Name: name, Message: told.Message, Parameter: shorten(told.Parameter)}
}

func isObject(raw []byte) bool {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	return len(raw) > 0 && raw[0] == '{'
}

// shorten makes text of a broker fit to be shown.
func shorten(text string) string {
	const most = 80
	letters := []rune(text)
	end := ""
	if len(letters) > most {
		letters, end = letters[:most], "…"
	}
	quoted := strconv.Quote(string(letters))
	return quoted[1:len(quoted)-1] + end
}
