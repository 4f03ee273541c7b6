#!lua flags=no-writes
local ids = redis.call('ZRANGEBYSCORE', prefix .. 'workers', '(' .. int(now()), '+inf')
if #ids == 0 then
  return {}
end
return redis.call('HMGET', prefix .. 'workers:info', unpack(ids))
