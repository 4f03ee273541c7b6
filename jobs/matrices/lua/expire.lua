#!lua flags=allow-oom
-- Drops up to `limit` claims whose time is up, but for those that a job needs; how many were up, then data and bytes of
-- each matrix that no one claims now.
local at = now()
local ended = redis.call('ZRANGEBYSCORE', claims, '-inf', int(at), 'LIMIT', 0, tonumber(ARGV[2]))
local reply = {#ended}
for _, claim in ipairs(ended) do
  local id, owner = string.match(claim, '^(%S+) (.*)$')
  local orphan = nil
  if is_needed_still(id, owner) then
    put_off(id, owner, at)
  else
    orphan = drop_claim(id, owner)
  end
  if orphan then
    reply[#reply + 1] = orphan[1]
    reply[#reply + 1] = orphan[2]
  end
end
return reply
