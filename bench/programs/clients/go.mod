module keep

go 1.22

require plimsoll v0.1.0

replace plimsoll => ../../../clients/go
