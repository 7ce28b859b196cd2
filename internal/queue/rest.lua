-- Stops a queue, or lets it go on if it was stopped with the same mark.
--
-- KEYS[1]  asynq's key of the paused queue
-- ARGV[1]  the mark that is written into it
-- ARGV[2]  1 to stop the queue, whoever stopped it before; 0 to let it go on
-- Result   what the key holds afterwards; '' when the queue goes on
local held = redis.call('GET', KEYS[1])
if ARGV[2] == '1' then
  if held ~= ARGV[1] then redis.call('SET', KEYS[1], ARGV[1]) end
  return ARGV[1]
end
if held == ARGV[1] then
  redis.call('DEL', KEYS[1])
  return ''
end
return held or ''
