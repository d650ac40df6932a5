module plimsoll/cache

go 1.24

require (
	github.com/maypok86/otter/v2 v2.3.0
	plimsoll v0.0.0
)

replace plimsoll => ../
