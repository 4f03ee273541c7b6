#!lua flags=allow-oom
-- A worker's heartbeat; drops those that fell silent. Returns 1 where an operator drained it.
local id, info, ttl = unpack(ARGV, 2, 4)
local at, workers, infos = now(), prefix .. 'workers', prefix .. 'workers:info'
for _, silent in ipairs(redis.call('ZRANGEBYSCORE', workers, '-inf', int(at))) do
  redis.call('HDEL', infos, silent)
  redis.call('ZREM', workers, silent)
end
redis.call('ZADD', workers, int(at + ttl), id)
redis.call('HSET', infos, id, info)
return redis.call('HEXISTS', drained, id)
