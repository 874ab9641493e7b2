#!/bin/sh
# Puts a repository and a backend together out of the wheel, in the working directory, and starts the server on them.
# Needs MODEL, PORT, GRPC_PORT, SITE_PACKAGES (of the wheel's environment) and PEERS (the folder above this one).
set -eu
export WHEEL_LIBRARIES="$SITE_PACKAGES/nvidia_pytriton.libs"
wheel=$SITE_PACKAGES/pytriton/tritonserver
minor=$("$SITE_PACKAGES/../../../bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
mkdir -p models/peer/1 backends
cp -r "$wheel/backends/python" backends/
cp -r "$wheel/python_backend_stubs/$minor/." backends/python/
mv backends/python/triton_python_backend_stub backends/python/stub.real
cp "$PEERS/triton/stub.sh" backends/python/triton_python_backend_stub
chmod +x backends/python/triton_python_backend_stub
cp "$PEERS/triton/config.pbtxt" models/peer/
cp "$PEERS/triton/model.py" models/peer/1/
exec "$wheel/bin/tritonserver" --model-repository models --backend-directory backends \
    --http-address 127.0.0.1 --http-port "$PORT" \
    --grpc-address 127.0.0.1 --grpc-port "$GRPC_PORT" --allow-metrics false --log-info false
