#!/bin/sh
# Stands where Triton looks for the stub of its Python backend; the wheel's own, beside it, needs the wheel's libraries.
LD_LIBRARY_PATH="$WHEEL_LIBRARIES" exec "$(dirname "$0")/stub.real" "$@"
