#!lua flags=allow-oom
-- running → queued, for a job that found no room for its product: no run is counted. Failed once it has found none for
-- `timeout`, as its hash says (no_room_since). Of each wait for its turn at most a TRIES-th of that counts: there may have
-- been room meanwhile, and a job in a long queue is not to fail by the second of two short outages. `ran` is as in
-- renew.lua.
local TRIES = 6
local id, attempt, error, error_type, timeout, ran = unpack(ARGV, 2, 7)
local job = read_running(id, attempt)
if not job then
  return {'stale'}
end
local at = now()
local since = redis.call('HGET', job_key(id), 'no_room_since')
if since then
  local by_clock = at - job.started
  since = math.min(since + by_clock - (tonumber(ran) or by_clock), at) + math.max(0, job.started - job.queued - timeout / TRIES)
end
local waits_on = not since or at - since < tonumber(timeout)
if waits_on then
  set(job, 'no_room_since', int(since or at))
  job.runs = int(job.runs - 1)
end
retry_or_fail(job, at, error, error_type, waits_on and job.runs + 1 or 0, false)
carry_out()
return {job.state}
