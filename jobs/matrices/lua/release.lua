#!lua flags=allow-oom
-- Gives a claim up; with `made`, only the one made then, not one that replaced it.
-- {0}: there is none; {1}: others remain; {1, data, bytes}: it was the last, remove the elements.
local id, owner, made = unpack(ARGV, 2, 4)
local made_then = live_claim(id, owner, now())
if not made_then or (made ~= '' and made ~= int(made_then)) then
  return {0}
end
return {1, unpack(drop_claim(id, owner) or {})}
