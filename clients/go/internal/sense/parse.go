package sense

import (
	"strconv"
	"strings"
)

// pairs reads lines of `name value` and of `name: value kB`. Values with a unit become bytes.
func pairs(text string) map[string]uint64 {
	found := make(map[string]uint64)
	for _, line := range strings.Split(text, "\n") {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		value, err := strconv.ParseUint(fields[1], 10, 64)
		if err != nil {
			continue
		}
		if len(fields) > 2 && fields[2] == "kB" {
			value *= 1024
		}
		found[strings.TrimSuffix(fields[0], ":")] = value
	}
	return found
}

// unescape undoes the octal escapes of mountinfo: \040 is a blank.
func unescape(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) {
			if letter, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(letter))
				i += 3
				continue
			}
		}
		out.WriteByte(text[i])
	}
	return out.String()
}
