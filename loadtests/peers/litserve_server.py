"""LitServe: FastAPI in front, and a worker process behind a queue."""

import litserve
from common import MAX_ROWS, MAX_WAIT_MS, PATIENCE_S, PORT, Model, reply, rows_of


class Api(litserve.LitAPI):
    """The steps as LitServe names them."""

    def setup(self, device):
        self.model = Model()

    def decode_request(self, request):
        return rows_of(request)

    def batch(self, inputs):
        return inputs

    def predict(self, x):
        return self.model.run_each(x)

    def unbatch(self, output):
        return output

    def encode_response(self, output):
        return reply(output)


if __name__ == "__main__":
    api = Api(max_batch_size=MAX_ROWS, batch_timeout=MAX_WAIT_MS / 1000)
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=1, timeout=PATIENCE_S)
    server.run(host="127.0.0.1", port=PORT, log_level="error", generate_client_file=False)
