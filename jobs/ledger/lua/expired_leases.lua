#!lua flags=no-writes
local expired = {}
for i, id in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', int(now()), 'LIMIT', 0, ARGV[2])) do
  expired[i] = {id, redis.call('HGET', job_key(id), 'attempt') or '0'}
end
return expired
