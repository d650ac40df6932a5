module plimsoll

go 1.21
