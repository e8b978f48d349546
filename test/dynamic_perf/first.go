/*
Copyright The Kubernetes Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"
)

// The program in a container first prints the time. EPOCHREALTIME is a variable of busybox's shell (and
// of bash), so that no other program has to be started for it; Debian's busybox has no "date +%N".
var (
	// printTimeAndSleep ends at once on SIGTERM, so that a removal measures Kubernetes and not the program.
	printTimeAndSleep = []string{"sh", "-c", "echo $EPOCHREALTIME; trap 'exit 0' TERM; sleep 86400 & wait"}
	// printTimeAndIgnoreSIGTERM runs until the end of its grace period.
	printTimeAndIgnoreSIGTERM = []string{"sh", "-c", "trap '' TERM; echo $EPOCHREALTIME; exec sleep 86400"}
)

// firstInstruction waits for what the program in a container printed to its log, and returns the time
// that it printed.
func firstInstruction(ctx context.Context, logPath string) (time.Time, error) {
	for {
		data, err := os.ReadFile(logPath)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return time.Time{}, fmt.Errorf("read the log of a container (this program must run on the node): %w", err)
		}
		if line, _, complete := bytes.Cut(data, []byte("\n")); complete {
			at, err := parseLogLine(string(line))
			if err != nil {
				return time.Time{}, fmt.Errorf("log %s: %w", logPath, err)
			}
			return at, nil
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("the program in the container printed no time to %s: %w", logPath, context.Cause(ctx))
		}
	}
}

// parseLogLine returns the time in a line of a CRI log: "<time of the line> stdout F <seconds>.<microseconds>".
func parseLogLine(line string) (time.Time, error) {
	fields := strings.Fields(line)
	if len(fields) != 4 || fields[1] != "stdout" || fields[2] != "F" {
		return time.Time{}, fmt.Errorf("expected one word on stdout, got %q; does the shell of the image know EPOCHREALTIME?", line)
	}
	seconds, micros, _ := strings.Cut(fields[3], ".")
	s, errS := strconv.ParseInt(seconds, 10, 64)
	us, errUS := strconv.ParseInt(micros, 10, 64)
	if errS != nil || errUS != nil || len(micros) != 6 {
		return time.Time{}, fmt.Errorf("expected seconds and microseconds since the epoch, got %q", fields[3])
	}
	return time.Unix(s, us*1000), nil
}
