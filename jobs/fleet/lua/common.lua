-- Put in front of every script here, after its first line (jobs/redis/scripts.py); `int`, `now` and `prefix` come from there.
-- The register of workers:
--   workers       zset  live workers by the end of their time
--   workers:info  hash  their heartbeats
--   workers:drained  hash  workers that are to take no more jobs, by when that was said
--   mismatches:<worker>  set  what was wrong of its products
--   roofs         hash  per device (UUID, or model): its measured roofs
-- What was measured for `auto`, by model of device:
--   measured:<model>      hash  per shape: what was measured there; empty where it was only tried
--   measured:<model>:age  zset  these shapes by when
--   wanted:<model>        zset  shapes that were asked for and not tried, by when
--   tune                  string  there while wanted shapes are to be measured at once

local drained = prefix .. 'workers:drained'

local function measured(model)
  return prefix .. 'measured:' .. model
end

local function ages(model)
  return measured(model) .. ':age'
end

local function wanted(model)
  return prefix .. 'wanted:' .. model
end

-- The time of a member that is added now: later than that of all others, also after the clock was set back.
local function latest(key)
  local last = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2]
  return int(math.max(now(), (last or 0) + 1))
end

-- Keeps a text; the oldest shapes beyond the bound go. More than the bound are there only if some have no age, by which
-- they would go in time: then all go.
local function keep(model, max_shapes, ttl, shape, text)
  if redis.call('HLEN', measured(model)) > tonumber(max_shapes) then
    redis.call('UNLINK', measured(model), ages(model))
  end
  redis.call('HSET', measured(model), shape, text)
  redis.call('ZADD', ages(model), latest(ages(model)), shape)
  while redis.call('ZCARD', ages(model)) > tonumber(max_shapes) do
    redis.call('HDEL', measured(model), redis.call('ZPOPMIN', ages(model))[1])
  end
  redis.call('EXPIRE', measured(model), ttl)
  redis.call('EXPIRE', ages(model), ttl)
end

-- Lists shapes to be measured; the oldest beyond the bound go.
local function want(model, max_shapes, ttl, shapes)
  local at = latest(wanted(model))
  for _, shape in ipairs(shapes) do
    redis.call('ZADD', wanted(model), 'NX', at, shape)
  end
  redis.call('ZREMRANGEBYRANK', wanted(model), 0, -max_shapes - 1)
  redis.call('EXPIRE', wanted(model), ttl)
end
