module plimsoll/automemlimit

go 1.22.0

require (
	github.com/KimMachineGun/automemlimit v1.0.1
	plimsoll v0.0.0
)

require github.com/pbnjay/memory v0.0.0-20210728143218-7b4eea64cf58 // indirect

replace plimsoll => ../
