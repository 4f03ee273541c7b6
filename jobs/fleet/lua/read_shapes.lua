#!lua flags=no-writes
-- What was measured at these shapes; nothing of one that has no text, or too long a one to be sent.
local model, max_bytes = unpack(ARGV, 2, 3)
local texts = {}
for position = 4, #ARGV do
  local short = redis.call('HSTRLEN', measured(model), ARGV[position]) <= tonumber(max_bytes)
  texts[#texts + 1] = short and redis.call('HGET', measured(model), ARGV[position])
end
return texts
