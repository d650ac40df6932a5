module plimsoll/automemlimit

go 1.22

require (
	github.com/KimMachineGun/automemlimit v0.7.0
	plimsoll v0.0.0
)

replace plimsoll => ../
