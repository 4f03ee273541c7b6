#!lua flags=allow-oom
-- Drops up to `limit` claims whose time is up; how many, then data and bytes of each matrix that no one claims now.
local ended = redis.call('ZRANGEBYSCORE', claims, '-inf', int(now()), 'LIMIT', 0, tonumber(ARGV[2]))
local reply = {#ended}
for _, claim in ipairs(ended) do
  local id, owner = string.match(claim, '^(%S+) (.*)$')
  local orphan = drop_claim(id, owner)
  if orphan then
    reply[#reply + 1] = orphan[1]
    reply[#reply + 1] = orphan[2]
  end
end
return reply
