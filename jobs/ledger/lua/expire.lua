#!lua flags=allow-oom
local before, gone = now() - ARGV[2], {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', prefix .. 'finished', '-inf', int(before), 'LIMIT', 0, ARGV[3])) do
  local job = read(id)
  if job then
    gone[#gone + 1] = reply('expired', id)
    forget(job)
  else
    redis.call('ZREM', prefix .. 'finished', id)
  end
end
return gone
