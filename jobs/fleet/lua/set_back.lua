#!lua flags=allow-oom
-- Redis' clock may have been set back: no worker counts as live for longer than `ttl` from now.
local workers, latest = prefix .. 'workers', int(now() + ARGV[2])
for _, id in ipairs(redis.call('ZRANGEBYSCORE', workers, '(' .. latest, '+inf')) do
  redis.call('ZADD', workers, latest, id)
end
