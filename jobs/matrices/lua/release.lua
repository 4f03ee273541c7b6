#!lua flags=allow-oom
-- Gives a claim up; with `made`, only the one made then, not one that replaced it. One that a job needs goes with that
-- job's end.
-- {0}: there is none; {1}: others remain; {1, data, bytes}: it was the last, remove the elements.
local id, owner, made = unpack(ARGV, 2, 4)
local at = now()
local made_then = live_claim(id, owner, at)
if not made_then or (made ~= '' and made ~= int(made_then)) then
  return {0}
elseif is_needed(id, owner) then
  give_up_claim(id, owner, at)
  return {1}
end
return {1, unpack(drop_claim(id, owner) or {})}
