package plimsoll

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unsafe"
)

// vectorCases are the cases of a file that clients in every language run. It is not part of a published module.
func vectorCases(t *testing.T, name string, into any) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "vectors", name+".json"))
	if os.IsNotExist(err) {
		t.Skip("skipped: clients/vectors is not there")
	}
	must(t, err)
	must(t, json.Unmarshal(raw, &struct{ Cases any }{into}))
}

// asJSON is a value as JSON has it, without fields that are null.
func asJSON(t *testing.T, raw []byte) any {
	t.Helper()
	var value any
	must(t, json.Unmarshal(raw, &value))
	return withoutNulls(value)
}

func withoutNulls(value any) any {
	fields, ok := value.(map[string]any)
	if !ok {
		return value
	}
	for name, field := range fields {
		if fields[name] = withoutNulls(field); field == nil {
			delete(fields, name)
		}
	}
	return fields
}

func encoded(t *testing.T, value any) []byte {
	t.Helper()
	raw, err := json.Marshal(value)
	must(t, err)
	return raw
}

func TestPagesReadAsTheVectorsSay(t *testing.T) {
	var cases []struct {
		Name   string
		Now    uint64
		Bytes  string
		Expect json.RawMessage
	}
	vectorCases(t, "pages", &cases)
	for _, c := range cases {
		given, err := hex.DecodeString(c.Bytes)
		must(t, err)
		var page words
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&page)), pageWords*8), given)
		var found any = "not a page"
		var reading Reading
		switch isPage := page.check() == nil; {
		case isPage && page.read(&reading):
			found = map[string]any{
				"id": page[wordID], "numbers": reading.Numbers, "heartbeat": reading.Heartbeat,
				"generation": reading.Generation, "stale": reading.isStale(c.Now),
			}
		case isPage:
			found = "no numbers"
		}
		if got, want := asJSON(t, encoded(t, found)), asJSON(t, c.Expect); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, expected %v", c.Name, got, want)
		}
	}
}

func TestCallsAreWrittenAsTheVectorsSay(t *testing.T) {
	var cases []struct{ Name, Message string }
	vectorCases(t, "calls", &cases)
	kinds := map[string]func() any{
		"Register":  func() any { return new(registerCall) },
		"Attach":    func() any { return new(attachCall) },
		"Report":    func() any { return new(reportCall) },
		"Subscribe": func() any { return new(whichCall) },
		"Released":  func() any { return new(releasedCall) },
		"Set":       func() any { return new(setCall) },
	}
	for _, c := range cases {
		var given struct {
			Method       string
			Parameters   json.RawMessage
			More, Oneway bool
		}
		must(t, json.Unmarshal([]byte(c.Message), &given))
		method := strings.TrimPrefix(given.Method, "io.plimsoll.")
		parameters := kinds[method]()
		must(t, json.Unmarshal(given.Parameters, parameters))
		written, err := call{method, parameters, given.More, given.Oneway}.encode()
		must(t, err)
		last := len(written) - 1
		if written[last] != 0 {
			t.Errorf("%s: a message ends with a NUL byte", c.Name)
		}
		got, want := asJSON(t, written[:last]), asJSON(t, []byte(c.Message))
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, expected %v", c.Name, got, want)
		}
	}
}

func TestRepliesAreReadAsTheVectorsSay(t *testing.T) {
	var cases []struct {
		Name, To, Message string
		Expect            json.RawMessage
	}
	vectorCases(t, "replies", &cases)
	for _, c := range cases {
		answer, err := parseReply([]byte(c.Message))
		must(t, err)
		var into any
		switch c.To {
		case "Register":
			into = new(registeredReply)
		case "Subscribe":
			into = new(changedReply)
		default:
			into = new(nothing)
		}
		var found map[string]any
		if err := answer.result(into); err == nil {
			found = map[string]any{"continues": answer.Continues, "parameters": into}
		} else if refused, ok := err.(*RefusedError); ok {
			found = map[string]any{"error": refused.Name, "message": refused.Message}
		} else {
			t.Errorf("%s: %v", c.Name, err)
		}
		if got, want := asJSON(t, encoded(t, found)), asJSON(t, c.Expect); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, expected %v", c.Name, got, want)
		}
	}
}

func TestRepliesThatAreNoneAreRefused(t *testing.T) {
	for _, message := range []string{"", "[]", "null", "7", "{", `{"parameters":{}} x`, "\xff"} {
		if _, err := parseReply([]byte(message)); err == nil {
			t.Errorf("%q was taken", message)
		}
	}
	const whole = `{"id":1,"generation":1,"numbers":{"limit":1,"available":1,"owed":0,"deadline":0,"uses":1,` +
		`"share":1,"level":"normal"}}`
	for _, parameters := range []string{
		"7", "[]", `{}`, `{"id":1,"generation":1,"numbers":null}`, `{"id":1,"generation":1,"numbers":{"limit":1}}`,
		`{"id":-1,"generation":1,"numbers":{}}`,
		strings.Replace(whole, `"normal"`, `"x"`, 1), strings.Replace(whole, `"limit":1`, `"limit":1.5`, 1),
	} {
		answer, err := parseReply([]byte(`{"parameters":` + parameters + `}`))
		if err == nil {
			err = answer.result(new(changedReply))
		}
		if err == nil {
			t.Errorf("%s was taken", parameters)
		}
	}
	answer, err := parseReply([]byte(`{"parameters":` + whole + `}`))
	must(t, err)
	must(t, answer.result(new(changedReply)))
}
