-- wrk's requests: BODY is a file, HEADERS lines of "name: value"; prints what it measured as one line of JSON.
local file = assert(io.open(os.getenv("BODY"), "rb"))
wrk.method = "POST"
wrk.body = file:read("*a")
file:close()
for name, value in os.getenv("HEADERS"):gmatch("([^\n:]+): ([^\n]+)") do
  wrk.headers[name] = value
end

function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    '{"requests":%d,"took_us":%d,"p50_us":%.1f,"p99_us":%.1f,"refused":%d,"broken":%d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), errors.status,
    errors.connect + errors.read + errors.write + errors.timeout))
end
