#!lua flags=allow-oom
-- Redis' clock may have been set back: brings times nearer that lie further ahead than anything can. Leases end after `lease`
-- at the latest, and what ended or was refused before the clock was set comes before what does so from now on. At most
-- `limit` jobs; how many they were.
local lease, limit = ARGV[2], tonumber(ARGV[3])
local at = now()
local latest, count_of = int(at + lease), 0

local function ahead_of(key, time)
  local ids = redis.call('ZRANGEBYSCORE', key, '(' .. time, '+inf', 'LIMIT', 0, limit)
  count_of = count_of + #ids
  return ids
end

for _, id in ipairs(ahead_of(leases, latest)) do
  redis.call('ZADD', leases, latest, id)
end
for _, id in ipairs(ahead_of(prefix .. 'refused', int(at))) do
  redis.call('ZADD', prefix .. 'refused', int(at), id)
end
for _, id in ipairs(ahead_of(finished_key, int(at))) do
  local owner = redis.call('HGET', job_key(id), 'owner')
  redis.call('ZADD', finished_key, int(at), id)
  if owner then
    redis.call('ZADD', finished_key .. ':' .. owner, int(at), id)
  end
end
return count_of
