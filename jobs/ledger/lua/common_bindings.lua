-- Put after common.lua: Idempotency-Keys of requests that made no job. Those of a job that was made go with it.
--   bound:<owner>  zset  their digests, by when they were bound; beyond a bound the oldest are forgotten
local FORGOTTEN_BINDINGS = 64 -- at once: more only where the bound was lowered

local function bind_key(owner, digest, fingerprint, subject, bound_ms, max_bound)
  local binding, all, at = prefix .. 'idem:' .. digest, prefix .. 'bound:' .. owner, now()
  call('HSET', binding, 'job', subject, 'fingerprint', fingerprint)
  call('PEXPIRE', binding, bound_ms)
  call('ZREMRANGEBYSCORE', all, '-inf', int(at - bound_ms * 1000)) -- these have expired, and may be bound to a job now
  local last = call('ZRANGE', all, -1, -1, 'WITHSCORES')[2] -- ahead of `at` where the clock was set back
  call('ZADD', all, int(math.max(at, (last or 0) + 1)), digest)
  call('PEXPIRE', all, bound_ms)
  local over = math.min(call('ZCARD', all) - max_bound, FORGOTTEN_BINDINGS)
  local oldest = over > 0 and call('ZPOPMIN', all, over) or {} -- digests, each with its time
  for i = 1, #oldest, 2 do
    call('DEL', prefix .. 'idem:' .. oldest[i])
  end
end
