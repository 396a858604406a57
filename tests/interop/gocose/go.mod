module gocose

go 1.21

require github.com/veraison/go-cose v1.3.0

require (
	github.com/fxamacker/cbor/v2 v2.5.0 // indirect
	github.com/x448/float16 v0.8.4 // indirect
)
