-- Makes wrk report in numbers, for wrk.rs to read.
done = function(summary, latency, requests)
    local errors = summary.errors
    print(string.format("report %d %d %d %d %d", summary.requests, summary.duration,
        errors.connect + errors.read + errors.write + errors.status, errors.timeout,
        latency:percentile(50)))
    print(string.format("tail %d %d", latency:percentile(99), latency.max))
end
