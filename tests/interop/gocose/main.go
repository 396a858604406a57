// Opens COSE_Sign1 messages with go-cose, which knows nothing of pools.
//
// The argument is an Ed25519 public key, 64 hex digits. Each line of the input is one message in hex; for
// each, one line is written: "accepts" and the payload in hex, or "refuses" and the library's error.
package main

import (
	"bufio"
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"os"

	"github.com/veraison/go-cose"
)

// A receipt has at most 1 MiB; in hex, twice that.
const lineBytesMax = 4 << 20

func open(message []byte, verifier cose.Verifier) ([]byte, error) {
	var sign1 cose.Sign1Message
	if err := sign1.UnmarshalCBOR(message); err != nil {
		return nil, err
	}
	if err := sign1.Verify(nil, verifier); err != nil {
		return nil, err
	}
	return sign1.Payload, nil
}

func run() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("one argument is needed: the public key in hex")
	}
	key, err := hex.DecodeString(os.Args[1])
	if err != nil || len(key) != ed25519.PublicKeySize {
		return fmt.Errorf("not a public key of 32 bytes in hex")
	}
	verifier, err := cose.NewVerifier(cose.AlgorithmEdDSA, ed25519.PublicKey(key))
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, lineBytesMax)
	for lines.Scan() {
		message, err := hex.DecodeString(lines.Text())
		if err != nil {
			return err
		}
		if payload, err := open(message, verifier); err != nil {
			fmt.Println("refuses", err)
		} else {
			fmt.Printf("accepts %x\n", payload)
		}
	}
	return lines.Err()
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}
